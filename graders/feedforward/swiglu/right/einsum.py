"""Own parameters and einsum."""

import torch
from torch import nn


def hidden_size(d_model, multiple_of=64):
    n = -(-8 * d_model // 3)
    return n + (-n) % multiple_of


class Weight(nn.Module):
    def __init__(self, out_features, in_features, device, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        nn.init.trunc_normal_(self.weight, std=(2 / (in_features + out_features)) ** 0.5)

    def forward(self, x):
        return torch.einsum("...i,oi->...o", x, self.weight)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff=None, *, device=None, dtype=None):
        super().__init__()
        if d_ff is None:
            d_ff = hidden_size(d_model)
        self.w1 = Weight(d_ff, d_model, device, dtype)
        self.w2 = Weight(d_model, d_ff, device, dtype)
        self.w3 = Weight(d_ff, d_model, device, dtype)

    def forward(self, x):
        gate = self.w1(x)
        return self.w2(nn.functional.silu(gate).mul(self.w3(x)))
