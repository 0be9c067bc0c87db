import torch
from torch import nn


class RoPEReal(nn.Module):
    def __init__(self, dim, max_len, base=10000.0):
        super().__init__()
        angles = torch.outer(torch.arange(max_len).double(), base ** (-torch.arange(0, dim, 2).double() / dim))
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, x, positions):
        cos, sin = self.cos[positions].to(x.dtype), self.sin[positions].to(x.dtype)
        x1, x2 = x[..., 0::2], x[..., 1::2]
        return torch.stack([x1 * cos - x2 * sin, x1 * sin + x2 * cos], dim=-1).flatten(-2)


class RoPEComplex(nn.Module):
    def __init__(self, dim, max_len, base=10000.0):
        super().__init__()
        angles = torch.outer(torch.arange(max_len).double(), base ** (-torch.arange(0, dim, 2).double() / dim))
        self.turn = torch.polar(torch.ones_like(angles), angles)

    def forward(self, x, positions):
        z = torch.complex(x[..., 0::2], x[..., 1::2]) * self.turn[positions].to(torch.complex64)
        return torch.view_as_real(z).flatten(-2)
