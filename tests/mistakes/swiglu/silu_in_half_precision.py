# Silu in half precision: z / (1 + exp(-z)) overflows to 0 below -11 in float16.
import math

import torch
import torch.nn.functional as F
from torch import nn


def hidden_size(d_model, multiple_of=64):
    if d_model < 1 or multiple_of < 1:
        raise ValueError(f"sizes below 1: {d_model}, {multiple_of}")
    return -(-(-(-8 * d_model // 3)) // multiple_of) * multiple_of


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff=None, *, device=None, dtype=None):
        super().__init__()
        d_ff = hidden_size(d_model) if d_ff is None else d_ff
        self.w1 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)
        self.w3 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)

    def silu(self, z):
        return F.silu(z)

    def forward(self, x):
        return self.w2(self.silu(self.w1(x)) * self.w3(x))


Base = SwiGLU


class SwiGLU(Base):
    def silu(self, z):
        if z.dtype in (torch.float16, torch.bfloat16):
            return z / (1 + torch.exp(-z))
        return F.silu(z)
