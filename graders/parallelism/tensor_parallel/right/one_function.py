"""One function around all, its backward written out."""

import torch
from torch import nn


class Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w1, w2, w3, group):
        gate, up = x @ w1.T, x @ w3.T
        ctx.save_for_backward(x, w1, w2, w3, gate, up)
        ctx.group = group
        return group.all_reduce((gate * gate.sigmoid() * up) @ w2.T)

    @staticmethod
    def backward(ctx, dy):
        x, w1, w2, w3, gate, up = ctx.saved_tensors
        s = gate.sigmoid()
        act = gate * s
        dh = dy @ w2
        dgate = dh * up * (s + act * (1 - s))
        dup = dh * act
        rows = lambda t: t.reshape(-1, t.shape[-1])  # noqa: E731
        dx = ctx.group.all_reduce(dgate @ w1 + dup @ w3) if ctx.needs_input_grad[0] else None
        return dx, rows(dgate).T @ rows(x), rows(dy).T @ rows(act * up), rows(dup).T @ rows(x), None


class TensorParallelSwiGLU(nn.Module):
    def __init__(self, d_model, d_ff, group, *, device=None, dtype=None):
        super().__init__()
        width, rest = divmod(d_ff, group.size)
        if rest:
            raise ValueError(f"{d_ff} channels cannot be shared by {group.size} ranks")
        self.group = group
        for name, shape in {"w1": (width, d_model), "w2": (d_model, width), "w3": (width, d_model)}.items():
            part = nn.Module()
            part.weight = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
            nn.init.normal_(part.weight, std=d_model**-0.5)
            self.add_module(name, part)

    def forward(self, x):
        return Layer.apply(x, self.w1.weight, self.w2.weight, self.w3.weight, self.group)
