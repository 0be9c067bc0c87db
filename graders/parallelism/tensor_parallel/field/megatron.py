"""As Megatron-LM and fairscale build Llama's feed-forward layer: column- and row-parallel linear layers, f and g."""

import torch
import torch.nn.functional as F
from torch import nn


def divide(numerator, denominator):
    if numerator % denominator != 0:
        raise ValueError(f"{numerator} is not divisible by {denominator}")
    return numerator // denominator


class _CopyToModelParallelRegion(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input_, group):
        ctx.group = group
        return input_

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.group.all_reduce(grad_output.contiguous()), None


class _ReduceFromModelParallelRegion(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input_, group):
        return group.all_reduce(input_.contiguous())

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None


class ColumnParallelLinear(nn.Module):
    def __init__(self, in_features, out_features, group, **factory):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(divide(out_features, group.size), in_features, **factory))
        nn.init.xavier_normal_(self.weight)

    def forward(self, input_parallel):
        return F.linear(input_parallel, self.weight)


class RowParallelLinear(nn.Module):
    def __init__(self, in_features, out_features, group, **factory):
        super().__init__()
        self.group = group
        self.weight = nn.Parameter(torch.empty(out_features, divide(in_features, group.size), **factory))
        nn.init.xavier_normal_(self.weight)

    def forward(self, input_parallel):
        return _ReduceFromModelParallelRegion.apply(F.linear(input_parallel, self.weight), self.group)


class TensorParallelSwiGLU(nn.Module):
    def __init__(self, d_model, d_ff, group, *, device=None, dtype=None):
        super().__init__()
        self.group = group
        self.w1 = ColumnParallelLinear(d_model, d_ff, group, device=device, dtype=dtype)
        self.w2 = RowParallelLinear(d_ff, d_model, group, device=device, dtype=dtype)
        self.w3 = ColumnParallelLinear(d_model, d_ff, group, device=device, dtype=dtype)

    def forward(self, x):
        x = _CopyToModelParallelRegion.apply(x, self.group)
        return self.w2(F.silu(self.w1(x)) * self.w3(x))
