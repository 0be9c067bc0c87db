import torch
from torch import nn


class RoPEReal(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        assert d_k % 2 == 0, f"d_k must be even, got {d_k}"
        freqs = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
        angles = torch.outer(torch.arange(max_seq_len, dtype=torch.float64), freqs)
        self.register_buffer("cos", angles.cos().float().to(device), persistent=False)
        self.register_buffer("sin", angles.sin().float().to(device), persistent=False)

    def forward(self, x, positions):
        seq = x.shape[-2]
        cos, sin = self.cos[:seq], self.sin[:seq]
        x1, x2 = x[..., 0::2].float(), x[..., 1::2].float()
        return torch.stack([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).flatten(-2).type_as(x)


class RoPEComplex(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        assert d_k % 2 == 0, f"d_k must be even, got {d_k}"
        freqs = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
        angles = torch.outer(torch.arange(max_seq_len, dtype=torch.float64), freqs).float()
        self.register_buffer("freqs_cis", torch.polar(torch.ones_like(angles), angles).to(device), persistent=False)

    def forward(self, x, positions):
        z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(z * self.freqs_cis[: x.shape[-2]]).flatten(-2).type_as(x)
