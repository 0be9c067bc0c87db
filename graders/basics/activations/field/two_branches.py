"""Sigmoid by the sign of x, as SciPy and CS336's students write it; GELU by the normal distribution, in float32."""

import math

import torch


def sigmoid(x):
    dtype = x.dtype
    x = x.float() if dtype in (torch.float16, torch.bfloat16) else x
    grown = torch.exp(x.clamp(max=0))
    return torch.where(x >= 0, 1 / (1 + torch.exp(-x.clamp(min=0))), grown / (1 + grown)).to(dtype)


def silu(x):
    return x * sigmoid(x)


def gelu(x):
    dtype = x.dtype
    x = x.float() if dtype in (torch.float16, torch.bfloat16) else x
    cdf = 0.5 * (1.0 + torch.erf(x * math.sqrt(0.5)))
    return (x * cdf).to(dtype)
