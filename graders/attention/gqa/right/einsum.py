"""Einsum, which needs no copy of the keys, and a division by the sum of the weights."""

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads or num_heads % num_kv_heads:
            raise ValueError(f"no whole numbers: {d_model=} by {num_heads=} by {num_kv_heads=}")
        self.num_heads, self.kv_heads, self.head_dim = num_heads, num_kv_heads, d_model // num_heads
        linear = lambda width: nn.Linear(d_model, width, bias=False, device=device, dtype=dtype)
        self.q_proj, self.o_proj = linear(d_model), linear(d_model)
        self.k_proj, self.v_proj = linear(num_kv_heads * self.head_dim), linear(num_kv_heads * self.head_dim)

    def heads(self, x):
        split = lambda t: t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2).float()
        return split(self.q_proj(x)), split(self.k_proj(x)), split(self.v_proj(x))

    def mix(self, q, k, v, mask=None):
        scores = torch.einsum("bgrtd,bgsd->bgrts", q.unflatten(1, (self.kv_heads, -1)), k) * self.head_dim**-0.5
        if mask is not None:
            full = mask.expand(q.shape[0], self.num_heads, -1, -1).unflatten(1, (self.kv_heads, -1))
            scores = scores.masked_fill(~full, -1e30)
        p = (scores - scores.max(-1, keepdim=True).values).exp()
        p = p if mask is None else p.masked_fill(~full, 0.0)
        out = torch.einsum("bgrts,bgsd->btgrd", p / p.sum(-1, keepdim=True).clamp_min(1e-30), v)
        return self.o_proj(out.flatten(2).to(self.o_proj.weight.dtype))

    def forward(self, x, mask=None):
        return self.mix(*self.heads(x), mask)
