# robust: Communication: every column-parallel layer copies x by itself, so the backward sums once a branch. Errors: none.
"""In the style of small tensor parallel trainers: each linear layer is wrapped by itself, with its own copy of x."""

import torch
import torch.nn.functional as F
from torch import nn


class Copy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x

    @staticmethod
    def backward(ctx, grad):
        return ctx.group.all_reduce(grad), None


class Reduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return group.all_reduce(x)

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class ColumnParallel(nn.Linear):
    def forward(self, x):
        return F.linear(Copy.apply(x, self.group), self.weight)


class RowParallel(nn.Linear):
    def forward(self, x):
        return Reduce.apply(F.linear(x, self.weight), self.group)


class TensorParallelSwiGLU(nn.Module):
    def __init__(self, d_model, d_ff, group, *, device=None, dtype=None):
        super().__init__()
        local = d_ff // group.size
        kwargs = {"bias": False, "device": device, "dtype": dtype}
        self.w1 = ColumnParallel(d_model, local, **kwargs)
        self.w3 = ColumnParallel(d_model, local, **kwargs)
        self.w2 = RowParallel(local, d_model, **kwargs)
        self.w1.group = self.w2.group = self.w3.group = group

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))
