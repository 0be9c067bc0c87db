import torch

ROOT_HALF = 2**-0.5


def sigmoid(x):
    h = x.double()
    return torch.exp(-torch.logaddexp(torch.zeros_like(h), -h)).to(x.dtype)


def silu(x):
    return torch.mul(x.double(), sigmoid(x.double())).to(x.dtype)


def gelu(x):
    h = x.to(torch.float64)
    return (h / 2 + h / 2 * torch.special.erf(h * ROOT_HALF)).to(x.dtype)
