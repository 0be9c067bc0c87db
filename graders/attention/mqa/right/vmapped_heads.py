"""vmap over the heads of the queries, keys and values left alone."""

import math

import torch
from torch import nn


class MultiQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        if num_heads < 1 or d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        self.heads, self.head_dim = num_heads, d_model // num_heads
        kind = dict(bias=False, device=device, dtype=dtype)
        self.q_proj, self.o_proj = (nn.Linear(d_model, d_model, **kind) for _ in "qo")
        self.k_proj, self.v_proj = (nn.Linear(d_model, self.head_dim, **kind) for _ in "kv")

    def forward(self, x, mask=None):
        work = torch.promote_types(x.dtype, torch.float32)
        q = self.q_proj(x).unflatten(-1, (self.heads, self.head_dim)).to(work)
        k, v = self.k_proj(x).to(work), self.v_proj(x).to(work)
        allowed = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=x.device) if mask is None else mask
        allowed = allowed.expand(x.shape[0], self.heads, x.shape[1], x.shape[1])

        def one(q, allowed):
            scores = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(self.head_dim)
            return torch.bmm(scores.masked_fill(~allowed, -3e38).softmax(-1) * allowed, v)

        heads = torch.vmap(one, in_dims=(2, 1), out_dims=2)(q, allowed)
        return self.o_proj(heads.flatten(-2).to(x.dtype))
