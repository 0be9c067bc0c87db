"""Groups as an axis of their own, named by einops; the mask is added."""

import torch
from einops import einsum, rearrange
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model}, num_heads {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads {num_heads}, num_kv_heads {num_kv_heads}")
        self.groups, self.num_heads = num_kv_heads, num_heads
        kv_dim, kind = d_model // num_heads * num_kv_heads, {"bias": False, "device": device, "dtype": dtype}
        self.q_proj, self.o_proj = (nn.Linear(d_model, d_model, **kind) for _ in "qo")
        self.k_proj, self.v_proj = (nn.Linear(d_model, kv_dim, **kind) for _ in "kv")

    def forward(self, x, mask=None):
        work = torch.promote_types(x.dtype, torch.float32)
        q = rearrange(self.q_proj(x), "b t (g r d) -> b g r t d", g=self.groups, r=self.num_heads // self.groups)
        k, v = (rearrange(p(x), "b s (g d) -> b g s d", g=self.groups) for p in (self.k_proj, self.v_proj))
        scores = einsum(q.to(work), k.to(work), "b g r t d, b g s d -> b g r t s") * k.size(-1) ** -0.5
        if mask is not None:
            mask = mask.expand(x.size(0), self.num_heads, x.size(1), x.size(1))
            mask = rearrange(mask, "b (g r) t s -> b g r t s", g=self.groups)
            scores = scores + torch.zeros_like(scores).masked_fill(~mask, torch.finfo(work).min / 2)
        weights = scores.softmax(-1)
        if mask is not None:
            weights = weights * mask.any(-1, keepdim=True)
        out = einsum(weights, v.to(work), "b g r t s, b g s d -> b g r t d")
        return self.o_proj(rearrange(out, "b g r t d -> b t (g r d)").to(x.dtype))
