"""An autograd function with its own backward."""

import torch
from torch import nn


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight.T

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        flat_grad, flat_x = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
        return grad @ weight, flat_grad.T @ flat_x


class Linear(nn.Module):
    def __init__(self, in_features, out_features, *, device=None, dtype=None):
        super().__init__()
        sd = (2 / (in_features + out_features)) ** 0.5
        empty = torch.empty(out_features, in_features, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(empty, std=sd, a=-3 * sd, b=3 * sd))

    def forward(self, x):
        return _Product.apply(x, self.weight)
