"""As PyTorch's decompositions: one line each, cast to the op-math dtype and back by a decorator; sigmoid by tanh."""

import functools
import math

import torch


def pw_cast_for_opmath(f):
    @functools.wraps(f)
    def inner(x):
        return f(x.to(torch.promote_types(x.dtype, torch.float32))).to(x.dtype)

    return inner


@pw_cast_for_opmath
def sigmoid(x):
    return 0.5 * (1.0 + torch.tanh(0.5 * x))


@pw_cast_for_opmath
def silu(x):
    return x * sigmoid(x)


@pw_cast_for_opmath
def gelu(x):
    return x * 0.5 * (1.0 + torch.erf(x * math.sqrt(0.5)))
