"""Torch's own attention, which is not ruled out here, over expanded keys; object style with a split of its own."""

import torch
import torch.nn.functional as F
from torch import nn


class Heads(nn.Linear):
    """A projection whose result is split into heads."""

    def __init__(self, d_model, count, size, **kw):
        super().__init__(d_model, count * size, bias=False, **kw)
        self.count = count

    def forward(self, x):
        return super().forward(x).unflatten(-1, (self.count, -1)).movedim(-2, 1)


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} must be a multiple of num_heads {num_heads}")
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads} must be a multiple of num_kv_heads {num_kv_heads}")
        size, kw = d_model // num_heads, dict(device=device, dtype=dtype)
        self.q_proj = Heads(d_model, num_heads, size, **kw)
        self.k_proj, self.v_proj = (Heads(d_model, num_kv_heads, size, **kw) for _ in range(2))
        self.o_proj = nn.Linear(d_model, d_model, bias=False, **kw)

    def forward(self, x, mask=None):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        k, v = (t.unsqueeze(2).expand(-1, -1, q.shape[1] // t.shape[1], -1, -1).flatten(1, 2) for t in (k, v))
        if mask is None:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            wide = [t.to(torch.promote_types(t.dtype, torch.float32)) for t in (q, k, v)]
            out = F.scaled_dot_product_attention(*wide, attn_mask=mask)
            out = torch.where(mask.any(-1, keepdim=True), out, 0.0).to(x.dtype)
        return self.o_proj(out.movedim(1, -2).flatten(-2))
