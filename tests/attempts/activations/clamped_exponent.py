import math

import torch


def sigmoid(x):
    # exp(80) is finite in float32, and 1 / (1 + exp(80)) is 0 to within any rounding of 1
    h = x.float() if x.dtype != torch.float64 else x
    positive = 1 / (1 + torch.exp(-h.clamp(min=0)))
    e = torch.exp(h.clamp(max=0))
    return torch.where(h > 0, positive, e / (1 + e)).to(x.dtype)


def silu(x):
    h = x.float() if x.dtype != torch.float64 else x
    return (h * sigmoid(h)).to(x.dtype)


def gelu(x):
    h = x.float() if x.dtype != torch.float64 else x
    phi = (1 + (h / math.sqrt(2)).erf()) / 2
    return (phi * h).to(x.dtype)
