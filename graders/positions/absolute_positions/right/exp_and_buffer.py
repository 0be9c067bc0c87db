"""Exponentials, and a buffer that stays float32 when the module is cast."""

import math

import torch
from torch import nn


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model, device=None, dtype=None):
        super().__init__()
        if d_model % 2:
            raise ValueError(f"d_model must be even, not {d_model}")
        self.max_len = max_len
        pe = torch.zeros(max_len, d_model, device=device)
        position = torch.arange(0, max_len, dtype=torch.float, device=device).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2, device=device).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe, persistent=False)

    def _apply(self, fn, recurse=True):
        pe = self.pe
        super()._apply(fn, recurse)
        self.pe = pe.to(self.pe.device)  # moved, but never cast
        return self

    def forward(self, x):
        if x.size(-2) > self.max_len:
            raise ValueError(f"sequence of {x.size(-2)} exceeds max_len={self.max_len}")
        return x + self.pe[: x.size(-2)].to(x.dtype)


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(max_len, d_model, device=device, dtype=dtype))

    def forward(self, x):
        if x.size(-2) > self.weight.size(0):
            raise ValueError(f"sequence of {x.size(-2)} exceeds max_len={self.weight.size(0)}")
        return x + self.weight[torch.arange(x.size(-2), device=x.device)]
