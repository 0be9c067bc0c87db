"""As ESPnet: the annotated transformer's table, but an attribute that no checkpoint holds, cast to the dtype of x."""

import math

import torch
from torch import nn


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        pe = torch.zeros(max_len, d_model, dtype=torch.float32)
        position = torch.arange(0, max_len, dtype=torch.float32).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2, dtype=torch.float32) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.pe = pe

    def forward(self, x):
        return x + self.pe[: x.size(-2)].to(device=x.device, dtype=x.dtype)


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype).normal_(std=0.02))

    def forward(self, x):
        return x + self.weight[: x.size(-2)]
