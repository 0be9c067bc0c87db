"""Two exponentials, each clamped to its half of the line."""

import math

import torch


def wide(x):
    return x if x.dtype == torch.float64 else x.float()


def sigmoid(x):
    h = wide(x)
    positive = 1 / (1 + torch.exp(-h.clamp(min=0)))
    e = torch.exp(h.clamp(max=0))
    return torch.where(h > 0, positive, e / (1 + e)).to(x.dtype)


def silu(x):
    h = wide(x)
    return (h * sigmoid(h)).to(x.dtype)


def gelu(x):
    h = wide(x)
    phi = (1 + (h / math.sqrt(2)).erf()) / 2
    return (phi * h).to(x.dtype)
