"""A sequential of named layers, the activation by its own formula."""

from collections import OrderedDict

import torch
from torch import nn


class Gelu(nn.Module):
    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (wide * torch.special.ndtr(wide)).to(x.dtype)


class FeedForward(nn.Sequential):
    def __init__(self, d_model, d_ff, dropout=0.0, *, device=None, dtype=None):
        kind = {"device": device, "dtype": dtype}
        fc1, fc2 = nn.Linear(d_model, d_ff, **kind), nn.Linear(d_ff, d_model, **kind)
        super().__init__(OrderedDict(fc1=fc1, gelu=Gelu(), dropout=nn.Dropout(dropout), fc2=fc2))
