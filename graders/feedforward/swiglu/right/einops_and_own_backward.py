"""SiLU as an autograd function with its own backward; widths by integer arithmetic."""

import torch
from einops import einsum
from torch import nn


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        s = torch.sigmoid(x)
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    def backward(ctx, g):
        x, s = ctx.saved_tensors
        return g * (s + x * s * (1 - s))


def hidden_size(d_model, multiple_of=64):
    width = (8 * d_model + 2) // 3
    return width + (-width) % multiple_of


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff=None, *, device=None, dtype=None):
        super().__init__()
        d_ff = d_ff if d_ff is not None else hidden_size(d_model)
        kind = dict(bias=False, device=device, dtype=dtype)
        self.w1, self.w3 = nn.Linear(d_model, d_ff, **kind), nn.Linear(d_model, d_ff, **kind)
        self.w2 = nn.Linear(d_ff, d_model, **kind)

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        gate = einsum(wide, self.w1.weight.to(wide.dtype), "... d, f d -> ... f")
        up = einsum(wide, self.w3.weight.to(wide.dtype), "... d, f d -> ... f")
        return einsum(Swish.apply(gate) * up, self.w2.weight.to(wide.dtype), "... f, d f -> ... d").to(x.dtype)
