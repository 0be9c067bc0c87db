# A Python loop over the columns builds the table: construction grows with d_model.
import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


def _table(max_len, d_model, device=None):
    p = torch.arange(max_len, dtype=torch.float64, device=device)[:, None]
    w = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64, device=device) / d_model)
    return torch.stack([(p * w).sin(), (p * w).cos()], -1).reshape(max_len, d_model)


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        if d_model % 2:
            raise ValueError(f"d_model must be even, got {d_model}")
        self.max_len = max_len
        self.register_buffer("table", _table(max_len, d_model, device), persistent=False)

    def _apply(self, fn, recurse=True):
        table = self.table
        super()._apply(fn, recurse)
        self.table = table.to(self.table.device)
        return self

    def forward(self, x):
        seq = x.shape[-2]
        if seq > self.max_len:
            raise ValueError(f"seq {seq} > max_len {self.max_len}")
        return (x + self.table[:seq]).to(x.dtype)


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        self.max_len = max_len
        self.weight = nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype))
        nn.init.normal_(self.weight, 0.0, 0.02)

    def forward(self, x):
        seq = x.shape[-2]
        if seq > self.max_len:
            raise ValueError(f"seq {seq} > max_len {self.max_len}")
        return (x + self.weight[:seq]).to(x.dtype)


class SinusoidalPositions(SinusoidalPositions):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__(max_len, d_model, device=device)
        p = torch.arange(max_len, dtype=torch.float64, device=device)
        for i in range(0, d_model, 2):
            a = p * 10000.0 ** (-i / d_model)
            self.table[:, i] = a.sin()
            self.table[:, i + 1] = a.cos()
