"""In the manner of Llama's FeedForward: the width by `int(2 * hidden / 3)`, rounded up to a multiple."""

from typing import Optional

import torch.nn.functional as F
from torch import nn


def hidden_size(d_model: int, multiple_of: int = 64) -> int:
    hidden_dim = 4 * d_model
    hidden_dim = int(2 * hidden_dim / 3)
    return multiple_of * ((hidden_dim + multiple_of - 1) // multiple_of)


class SwiGLU(nn.Module):
    def __init__(self, d_model: int, d_ff: Optional[int] = None, device=None, dtype=None):
        super().__init__()
        if d_ff is None:
            d_ff = hidden_size(d_model)
        self.w1 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)
        self.w3 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))
