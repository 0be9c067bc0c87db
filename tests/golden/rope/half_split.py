import torch
from torch import nn


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat([-x2, x1], dim=-1)


class RoPEReal(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        if d_k % 2:
            raise ValueError(f"d_k must be even, got {d_k}")
        self.d_k, self.max_seq_len = d_k, max_seq_len
        freqs = theta ** (-torch.arange(0, d_k, 2, device=device).double() / d_k)
        angles = torch.outer(torch.arange(max_seq_len, device=device).double(), freqs)
        self.cos = torch.cat([angles, angles], dim=-1).cos()
        self.sin = torch.cat([angles, angles], dim=-1).sin()

    def forward(self, x, positions):
        if x.shape[-1] != self.d_k:
            raise ValueError(f"expected last dimension {self.d_k}, got {x.shape[-1]}")
        bad = positions[(positions < 0) | (positions >= self.max_seq_len)]
        if len(bad):
            raise ValueError(f"position {bad[0]} is outside the table of {self.max_seq_len}")
        cos, sin = self.cos.to(x.device)[positions].float(), self.sin.to(x.device)[positions].float()
        if positions.dim() == 2 and x.dim() > 3:
            cos, sin = cos[:, None], sin[:, None]
        return (x.float() * cos + rotate_half(x.float()) * sin).to(x.dtype)


class RoPEComplex(RoPEReal):
    def forward(self, x, positions):
        if x.shape[-1] != self.d_k:
            raise ValueError(f"expected last dimension {self.d_k}, got {x.shape[-1]}")
        bad = positions[(positions < 0) | (positions >= self.max_seq_len)]
        if len(bad):
            raise ValueError(f"position {bad[0]} is outside the table of {self.max_seq_len}")
        turn = torch.complex(self.cos, self.sin).to(x.device)[positions, : self.d_k // 2].to(torch.complex64)
        if positions.dim() == 2 and x.dim() > 3:
            turn = turn[:, None]
        x1, x2 = x.float().chunk(2, dim=-1)
        out = torch.complex(x1, x2) * turn
        return torch.cat([out.real, out.imag], dim=-1).to(x.dtype)
