"""Einsum, which needs no copy of the keys, and a division by the sum of the weights."""

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} must be a multiple of num_heads {num_heads}")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads} must be a multiple of num_kv_heads {num_kv_heads}")
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.kv_heads = num_kv_heads
        kw = dict(bias=False, device=device, dtype=dtype)
        self.q_proj = nn.Linear(d_model, d_model, **kw)
        self.k_proj = nn.Linear(d_model, self.kv_heads * self.head_dim, **kw)
        self.v_proj = nn.Linear(d_model, self.kv_heads * self.head_dim, **kw)
        self.o_proj = nn.Linear(d_model, d_model, **kw)

    def forward(self, x, mask=None):
        q = self.q_proj(x).unflatten(-1, (self.kv_heads, -1, self.head_dim)).float()
        k = self.k_proj(x).unflatten(-1, (self.kv_heads, self.head_dim)).float()
        v = self.v_proj(x).unflatten(-1, (self.kv_heads, self.head_dim)).float()
        scores = torch.einsum("btkgd,bskd->bkgts", q, k) * self.head_dim**-0.5
        if mask is not None:
            full = mask.expand(x.shape[0], self.num_heads, x.shape[1], x.shape[1]).unflatten(1, (self.kv_heads, -1))
            scores = scores.masked_fill(~full, -1e30)
        p = (scores - scores.max(-1, keepdim=True).values).exp()
        p = p if mask is None else p.masked_fill(~full, 0.0)
        total = p.sum(-1, keepdim=True).clamp_min(1e-30)
        out = torch.einsum("bkgts,bskd->btkgd", p / total, v)
        return self.o_proj(out.flatten(2).to(x.dtype))
