"""Sigmoid as half a tanh, moved up; GELU by erf."""

import math

import torch
from torch import Tensor


def _up(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def sigmoid(x: Tensor) -> Tensor:
    return (0.5 + 0.5 * torch.tanh(_up(x) / 2)).to(x.dtype)


def silu(x: Tensor) -> Tensor:
    h = _up(x)
    return (h * (0.5 + 0.5 * torch.tanh(h / 2))).to(x.dtype)


def gelu(x: Tensor) -> Tensor:
    h = _up(x)
    return (0.5 * h * (1.0 + torch.erf(h / math.sqrt(2.0)))).to(x.dtype)
