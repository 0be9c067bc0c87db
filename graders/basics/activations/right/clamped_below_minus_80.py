"""The exponent clamped at 80; a decorator computes in float32 as the CUDA kernels do."""

import math

import torch
from torch import Tensor


def _opmath(fn):
    """Run an elementwise function in its op-math type, as the CUDA kernels do."""

    def wrapper(x: Tensor) -> Tensor:
        if x.dtype in (torch.float16, torch.bfloat16):
            return fn(x.to(torch.float32)).to(x.dtype)
        return fn(x)

    return wrapper


@_opmath
def sigmoid(x: Tensor) -> Tensor:
    # exp(80) is far from overflow in float32 and sigmoid(-80) is zero for every purpose
    return 1.0 / (1.0 + torch.exp(-x.clamp(min=-80.0)))


@_opmath
def silu(x: Tensor) -> Tensor:
    return x * sigmoid(x)


@_opmath
def gelu(x: Tensor) -> Tensor:
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))
