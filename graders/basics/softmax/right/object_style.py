"""A module with a temperature of one, and a row function under vmap."""

import torch
from torch import nn


class Row(nn.Module):
    def forward(self, row):
        e = (row - row.amax()).exp()
        return e / e.sum()


def softmax(x, dim=-1):
    accumulate = torch.float64 if x.dtype is torch.float64 else torch.float32
    rows = x.to(accumulate).movedim(dim, -1)
    out = torch.func.vmap(Row())(rows.reshape(-1, rows.shape[-1])).reshape(rows.shape)
    return out.movedim(-1, dim).to(x.dtype)
