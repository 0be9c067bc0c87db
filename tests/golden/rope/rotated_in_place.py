import torch
from torch import nn


class RoPEReal(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        if d_k % 2 != 0:
            raise ValueError(f"d_k must be even, not {d_k}")
        self.d_k = d_k
        self.max_seq_len = max_seq_len
        freqs = 1.0 / theta ** (torch.arange(0, d_k, 2, dtype=torch.float64, device=device) / d_k)
        angles = torch.outer(torch.arange(max_seq_len, dtype=torch.float64, device=device), freqs)
        self.cos = angles.cos()
        self.sin = angles.sin()

    def look_up(self, x, positions):
        if x.shape[-1] != self.d_k:
            raise ValueError(f"x has width {x.shape[-1]}, not {self.d_k}")
        wrong = positions[(positions < 0) | (positions >= self.max_seq_len)]
        if wrong.numel():
            raise ValueError(f"position {wrong[0].item()} is not in [0, {self.max_seq_len})")
        cos, sin = self.cos.to(x.device)[positions], self.sin.to(x.device)[positions]
        if positions.dim() == 2:
            extra = x.dim() - 3
            cos = cos.view(len(cos), *[1] * extra, *cos.shape[1:])
            sin = sin.view(len(sin), *[1] * extra, *sin.shape[1:])
        dtype = torch.promote_types(x.dtype, torch.float32)
        return x.to(dtype), cos.to(dtype), sin.to(dtype)

    def forward(self, x, positions):
        wide, cos, sin = self.look_up(x, positions)
        wide[..., 0::2] = wide[..., 0::2] * cos - wide[..., 1::2] * sin
        wide[..., 1::2] = wide[..., 0::2] * sin + wide[..., 1::2] * cos
        return wide.to(x.dtype)


class RoPEComplex(RoPEReal):
    def forward(self, x, positions):
        wide, cos, sin = self.look_up(x, positions)
        z = torch.complex(wide[..., 0::2], wide[..., 1::2]) * torch.complex(cos, sin)
        return torch.stack([z.real, z.imag], dim=-1).flatten(-2).to(x.dtype)
