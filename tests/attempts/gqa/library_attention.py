"""Torch's own attention, which is not ruled out here, over expanded keys; object style with a split of its own."""

import torch
import torch.nn.functional as F
from torch import nn


class Heads:
    def __init__(self, count):
        self.count = count

    def split(self, t):
        return t.unflatten(-1, (self.count, -1)).movedim(-2, 1)

    @staticmethod
    def merge(t):
        return t.movedim(1, -2).flatten(-2)


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
        q = Heads(self.num_heads).split(self.q_proj(x))
        k, v = (Heads(self.kv_heads).split(p(x)) for p in (self.k_proj, self.v_proj))
        k, v = (t.unsqueeze(2).expand(-1, -1, self.num_heads // self.kv_heads, -1, -1).flatten(1, 2) for t in (k, v))
        if mask is None:
            return self.o_proj(Heads.merge(F.scaled_dot_product_attention(q, k, v)))
        wide = [t.to(torch.promote_types(t.dtype, torch.float32)) for t in (q, k, v)]
        out = F.scaled_dot_product_attention(*wide, attn_mask=mask)
        out = torch.where(mask.any(-1, keepdim=True), out, 0.0)
        return self.o_proj(Heads.merge(out.to(x.dtype)))
