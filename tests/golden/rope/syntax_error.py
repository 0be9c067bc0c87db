import torch
from torch import nn


class RoPEReal(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        freqs = theta ** (-torch.arange(0, d_k, 2).double() / d_k)
        angles = torch.outer(torch.arange(max_seq_len).double(), freqs
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, x, positions):
        cos, sin = self.cos[positions], self.sin[positions]
        x1, x2 = x[..., 0::2], x[..., 1::2]
        return torch.stack([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).flatten(-2).to(x.dtype)
