"""Own parameters and einsum, dropout by comparing with uniform numbers."""

import math

import torch
from torch import nn


class Affine(nn.Module):
    def __init__(self, n_in, n_out, **factory):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_out, n_in, **factory))
        self.bias = nn.Parameter(torch.zeros(n_out, **factory))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight) + self.bias


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.0, *, device=None, dtype=None):
        super().__init__()
        if not 0.0 <= dropout <= 1.0:
            raise ValueError(f"dropout {dropout} is no probability")
        self.p = dropout
        self.fc1 = Affine(d_model, d_ff, device=device, dtype=dtype)
        self.fc2 = Affine(d_ff, d_model, device=device, dtype=dtype)

    def forward(self, x):
        h = self.fc1(x)
        wide = h.float() if h.dtype in (torch.float16, torch.bfloat16) else h
        h = (wide * 0.5 * (1.0 + torch.erf(wide / math.sqrt(2.0)))).to(h.dtype)
        if self.training and self.p > 0:
            keep = torch.rand_like(h) >= self.p
            h = torch.where(keep, h / max(1 - self.p, 1e-9), 0)
        return self.fc2(h)
