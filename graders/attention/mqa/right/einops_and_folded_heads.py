"""Heads folded into the sequence of the queries: one batched product serves all of them."""

import torch
from einops import rearrange
from torch import nn


class MultiQueryAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        super().__init__()
        self.h, rest = num_heads, d_model % num_heads
        if rest:
            raise ValueError(f"d_model {d_model} leaves {rest} after division by num_heads {num_heads}")
        linear = lambda out: nn.Linear(d_model, out, bias=False, device=device, dtype=dtype)
        self.q_proj, self.k_proj = linear(d_model), linear(d_model // num_heads)
        self.v_proj, self.o_proj = linear(d_model // num_heads), linear(d_model)

    def forward(self, x, mask=None):
        dtype = x.dtype
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        if dtype != torch.float64:
            q, k, v = q.float(), k.float(), v.float()
        q = rearrange(q, "b t (h d) -> b (h t) d", h=self.h) / k.size(-1) ** 0.5
        scores = rearrange(q @ k.mT, "b (h t) s -> b h t s", h=self.h)
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), -torch.inf)
        weights = torch.nan_to_num(torch.softmax(scores, dim=-1), nan=0.0) if mask is not None else scores.softmax(-1)
        out = rearrange(weights, "b h t s -> b (h t) s") @ v
        return self.o_proj(rearrange(out, "b (h t) d -> b t (h d)", h=self.h).to(dtype))
