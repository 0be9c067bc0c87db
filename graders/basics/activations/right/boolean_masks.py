"""Each half of the line picked by a boolean mask and written into the result."""

import math

import torch


def sigmoid(x):
    z = x.float()
    out = torch.empty_like(z)
    positive = z >= 0
    out[positive] = 1 / (1 + torch.exp(-z[positive]))
    e = torch.exp(z[~positive])
    out[~positive] = e / (1 + e)
    return out.to(x.dtype)


def silu(x):
    z = x.float()
    return (z * sigmoid(z)).to(x.dtype)


def gelu(x):
    z = x.float()
    return (0.5 * z * (1 + torch.erf(z / math.sqrt(2)))).to(x.dtype)
