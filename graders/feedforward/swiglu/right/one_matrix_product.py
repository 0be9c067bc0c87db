"""Object style: both branches in one product over the stacked weights."""

import torch
from torch import nn


def hidden_size(d_model, multiple_of=64):
    size = (8 * d_model + 2) // 3
    while size % multiple_of:
        size += 1
    return size


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff=None, *, device=None, dtype=None):
        super().__init__()
        d_ff = d_ff if d_ff is not None else hidden_size(d_model)
        self.w1 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)
        self.w3 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.act = nn.SiLU()

    def forward(self, x):
        both = x @ torch.cat((self.w1.weight, self.w3.weight), dim=0).T
        gate, value = both.tensor_split(2, dim=-1)
        return self.w2(self.act(gate) * value)
