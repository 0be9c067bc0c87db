# robust: house rules 1, 4, 8: x has three axes, bfloat16 comes back as float32, and a saved table fits no other model.
"""As the annotated transformer: speeds by exp of logarithms, a buffer with an axis for the batch."""

import math

import torch
from torch import nn


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + self.pe[:, : x.size(1)].requires_grad_(False)


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype).normal_(std=0.02))

    def forward(self, x):
        return x + self.weight[: x.size(1)].unsqueeze(0)
