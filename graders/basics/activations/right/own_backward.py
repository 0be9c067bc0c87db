"""Sigmoid as an autograd function with its own backward; a decorator widens; GELU by erfc."""

import torch
from torch import Tensor


class Sigmoid(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        e = torch.exp(-x.abs())
        y = torch.where(x >= 0, 1 / (1 + e), e / (1 + e))
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return grad * y * (1 - y)


def in_float32(function):
    def wrapped(x):
        wide = torch.promote_types(x.dtype, torch.float32)
        return function(x.to(wide)).to(x.dtype)

    return wrapped


@in_float32
def sigmoid(x):
    return Sigmoid.apply(x)


@in_float32
def silu(x):
    return x * Sigmoid.apply(x)


@in_float32
def gelu(x):
    return x * torch.erfc(-x * 0.7071067811865476) * 0.5
