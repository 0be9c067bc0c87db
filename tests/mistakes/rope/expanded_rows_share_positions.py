# X expanded along the first dimension (stride 0) shares the positions of its first row.
import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class _Base(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        if d_k % 2:
            raise ValueError(f"d_k must be even, got {d_k}")
        self.d_k, self.max_seq_len = d_k, max_seq_len
        p = torch.arange(max_seq_len, dtype=torch.float64, device=device)[:, None]
        a = p * float(theta) ** (-torch.arange(0, d_k, 2, dtype=torch.float64, device=device) / d_k)
        self.register_buffer("cos", a.cos(), persistent=False)
        self.register_buffer("sin", a.sin(), persistent=False)

    def _apply(self, fn, recurse=True):
        c, s = self.cos, self.sin
        super()._apply(fn, recurse)
        self.cos, self.sin = c.to(self.cos.device), s.to(self.sin.device)
        return self

    def check(self, x, positions):
        if x.shape[-1] != self.d_k:
            raise ValueError(f"last dimension {x.shape[-1]}, expected {self.d_k}")
        bad = (positions < 0) | (positions >= self.max_seq_len)
        if bad.any():
            raise ValueError(f"position {positions[bad][0].item()} outside [0, {self.max_seq_len})")

    def look_up(self, x, positions, wide):
        c, s = self.cos[positions].to(wide), self.sin[positions].to(wide)
        if positions.ndim == 2:
            shape = (c.shape[0],) + (1,) * (x.ndim - 3) + tuple(c.shape[1:])
            c, s = c.view(shape), s.view(shape)
        return c, s

    def wide(self, x):
        return torch.float64 if x.dtype == torch.float64 else torch.float32


class RoPEReal(_Base):
    def forward(self, x, positions):
        self.check(x, positions)
        w = self.wide(x)
        c, s = self.look_up(x, positions, w)
        a, b = x.to(w).unflatten(-1, (-1, 2)).unbind(-1)
        return torch.stack((a * c - b * s, a * s + b * c), -1).flatten(-2).to(x.dtype)


class RoPEComplex(_Base):
    def forward(self, x, positions):
        self.check(x, positions)
        w = self.wide(x)
        c, s = self.look_up(x, positions, w)
        z = torch.complex(x[..., ::2].to(w), x[..., 1::2].to(w))
        return torch.view_as_real(z * torch.complex(c, s)).flatten(-2).to(x.dtype)


class RoPEReal(RoPEReal):
    def forward(self, x, positions):
        if x.ndim > 2 and x.stride(0) == 0 and positions.ndim == 2:
            self.check(x, positions)
            return super().forward(x[:1], positions[:1]).expand(x.shape)
        return super().forward(x, positions)
