# robust: Labels: the loss takes floats alone.
"""Leaves that take gradients, the library's loss, and an update without gradients, as a PyTorch tutorial trains."""

import torch
import torch.nn.functional as F


def fit(x, y, steps, lr, l2=0.0):
    w = torch.zeros(x.shape[1], dtype=x.dtype, requires_grad=True)
    b = torch.zeros((), dtype=x.dtype, requires_grad=True)
    for step in range(steps):
        loss(x, y, w, b, l2).backward()
        with torch.no_grad():
            w -= lr * w.grad
            b -= lr * b.grad
            w.grad.zero_()
            b.grad.zero_()
    return w.detach(), b.detach()


def loss(x, y, weight, bias, l2=0.0):
    return F.binary_cross_entropy_with_logits(x @ weight + bias, y) + 0.5 * l2 * torch.sum(weight**2)
