"""Einsum over named weights, dropout from a Bernoulli mask."""

import math

import torch
from torch import nn


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, *, device=None, dtype=None):
        super().__init__()
        self.keep = 1.0 - dropout
        self.fc1 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)
        self.fc2 = nn.Linear(d_ff, d_model, device=device, dtype=dtype)

    def forward(self, x):
        work = torch.promote_types(x.dtype, torch.float32)
        w1, b1, w2, b2 = (p.to(work) for p in (self.fc1.weight, self.fc1.bias, self.fc2.weight, self.fc2.bias))
        h = torch.einsum("...d,fd->...f", x.to(work), w1) + b1
        h = h * 0.5 * (1.0 + torch.erf(h / math.sqrt(2.0)))
        if self.training and self.keep < 1:
            kept = torch.bernoulli(torch.full_like(h, self.keep)) if self.keep > 0 else torch.zeros_like(h)
            h = h * kept / max(self.keep, 1e-9)
        return (torch.einsum("...f,df->...d", h, w2) + b2).to(x.dtype)
