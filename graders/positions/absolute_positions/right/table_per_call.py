"""The table computed for the tokens that come, at every call: nothing is kept, so nothing is cast or moved."""

import torch
from torch import nn


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        if d_model % 2:
            raise ValueError(f"d_model {d_model} is odd")
        self.max_len = max_len

    def forward(self, x):
        seq, d = x.shape[-2:]
        if seq > self.max_len:
            raise ValueError(f"{seq} > {self.max_len}")
        angles = torch.arange(seq, device=x.device, dtype=torch.float64)[:, None] * 10000.0 ** (
            -torch.arange(0, d, 2, device=x.device, dtype=torch.float64) / d
        )
        return (x + torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)).to(x.dtype)


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype).normal_(0, 0.02))

    def forward(self, x):
        if x.shape[-2] > len(self.weight):
            raise ValueError(f"{x.shape[-2]} > {len(self.weight)}")
        return x + self.weight[: x.shape[-2]]
