"""A cosine is a sine a quarter turn ahead."""

import math

import torch
from torch import nn


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        if d_model & 1:
            raise ValueError(f"d_model = {d_model} is odd")
        column = torch.arange(d_model, dtype=torch.float64)
        speed = torch.pow(10000.0, -2 * (column // 2) / d_model)
        angle = torch.arange(max_len, dtype=torch.float64)[:, None] * speed + (column % 2) * math.pi / 2
        self._table = (angle.sin(),)

    def forward(self, x):
        (table,) = self._table
        if x.shape[-2] > table.shape[0]:
            raise ValueError(f"got {x.shape[-2]} positions, have {table.shape[0]}")
        wide = torch.promote_types(x.dtype, torch.float32)
        return torch.add(x.to(wide), table[: x.shape[-2]].to(x.device, wide)).to(x.dtype)


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        self.max_len = max_len
        self.weight = nn.Parameter(nn.init.normal_(torch.empty(max_len, d_model, device=device, dtype=dtype), std=0.02))

    def forward(self, x):
        n = x.shape[-2]
        if n > self.max_len:
            raise ValueError(f"got {n} positions, have {self.max_len}")
        return self.weight.narrow(0, 0, n).expand_as(x) + x
