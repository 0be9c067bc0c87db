"""Einsum, which needs no copy of the keys, and a division by the sum of the weights."""

import torch
from torch import nn


class MultiQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} must be a multiple of num_heads {num_heads}")
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.kv_heads = 1
        kw = dict(bias=False, device=device, dtype=dtype)
        self.q_proj = nn.Linear(d_model, d_model, **kw)
        self.k_proj = nn.Linear(d_model, self.kv_heads * self.head_dim, **kw)
        self.v_proj = nn.Linear(d_model, self.kv_heads * self.head_dim, **kw)
        self.o_proj = nn.Linear(d_model, d_model, **kw)

    def forward(self, x, mask=None):
        q = self.q_proj(x).unflatten(-1, (self.num_heads, self.head_dim)).float()
        k, v = self.k_proj(x).float(), self.v_proj(x).float()
        scores = torch.einsum("bthd,bsd->bhts", q, k) * self.head_dim**-0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e30)
        p = (scores - scores.max(-1, keepdim=True).values).exp()
        p = p if mask is None else p * mask
        total = p.sum(-1, keepdim=True).clamp_min(1e-30)
        out = torch.einsum("bhts,bsd->bthd", p, v) / total.transpose(1, 2)
        return self.o_proj(out.flatten(2).to(x.dtype))
