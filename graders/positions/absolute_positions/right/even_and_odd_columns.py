"""As in the annotated transformer: two strided assignments, buffers, broadcasting."""

import math

import torch
import torch.nn as nn


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int, *, device=None, dtype=None):
        super(SinusoidalPositions, self).__init__()
        if d_model % 2 == 1:
            raise ValueError("odd d_model: %d" % d_model)
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len, dtype=torch.float32).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2).float() * (-math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.pe = [pe.to(device)]  # in a list, where no cast reaches it

    def forward(self, x):
        pe = self.pe[0].to(x.device)
        if x.shape[-2] > len(pe):
            raise ValueError("sequence of %d is longer than max_len %d" % (x.shape[-2], len(pe)))
        return (x + pe[: x.shape[-2], :]).to(x.dtype)


class LearnedPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int, *, device=None, dtype=None):
        super(LearnedPositions, self).__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype))
        nn.init.normal_(self.weight, 0.0, 0.02)

    def forward(self, x):
        n = x.shape[-2]
        if n > self.weight.shape[0]:
            raise ValueError("sequence of %d is longer than max_len %d" % (n, self.weight.shape[0]))
        return x + self.weight.narrow(0, 0, n)
