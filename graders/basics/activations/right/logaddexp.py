"""sigmoid(x) = exp(-log(1 + exp(-x))), by logaddexp; GELU by erfc, which does not cancel."""

import torch


def _wide(x):
    return x.to(torch.promote_types(x.dtype, torch.float32))


def sigmoid(x):
    w = _wide(x)
    return torch.exp(-torch.logaddexp(torch.zeros_like(w), -w)).to(x.dtype)


def silu(x):
    w = _wide(x)
    return (w * torch.exp(-torch.logaddexp(torch.zeros_like(w), -w))).to(x.dtype)


def gelu(x):
    w = _wide(x)
    return (w * torch.special.erfc(-w * 0.5**0.5) / 2).to(x.dtype)
