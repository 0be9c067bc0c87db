"""An autograd function that keeps the mask alone."""

import torch


class Dropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, mask, scale):
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return x * mask * scale

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.saved_tensors[0] * ctx.scale, None, None


def dropout(x, uniform, p=0.5, training=True):
    if p < 0 or p > 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return Dropout.apply(x, uniform.ge(p), 0 if p == 1 else 1 / (1 - p)) if training else x
