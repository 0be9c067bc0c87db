"""Everything in float32, rounded at the end; sizes by math.ceil."""

import math

import torch
import torch.nn.functional as F
from torch import nn


def hidden_size(d_model, multiple_of=64):
    exact = math.ceil(8 * d_model / 3)
    return multiple_of * math.ceil(exact / multiple_of)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff=None, *, device=None, dtype=None):
        super().__init__()
        d_ff = hidden_size(d_model) if d_ff is None else d_ff
        kw = {"bias": False, "device": device, "dtype": dtype}
        self.w1 = nn.Linear(d_model, d_ff, **kw)
        self.w3 = nn.Linear(d_model, d_ff, **kw)
        self.w2 = nn.Linear(d_ff, d_model, **kw)

    def forward(self, x):
        z = x.float()
        a, b = F.linear(z, self.w1.weight.float()), F.linear(z, self.w3.weight.float())
        return F.linear(a * torch.sigmoid(a) * b, self.w2.weight.float()).to(x.dtype)
