"""Products by broadcasting and summing, heads by einops."""

import torch
from einops import rearrange
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model}, num_heads {num_heads}: not divisible")
        self.num_heads = num_heads
        factory = {"device": device, "dtype": dtype, "bias": False}
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model, **factory) for _ in "qkvo")

    def forward(self, x, context=None, mask=None):
        src = context if context is not None else x
        q, k, v = (
            rearrange(proj(inp), "b s (h d) -> b h s d", h=self.num_heads).float()
            for proj, inp in ((self.q_proj, x), (self.k_proj, src), (self.v_proj, src))
        )
        scores = (q.unsqueeze(-2) * k.unsqueeze(-3)).sum(-1) / q.size(-1) ** 0.5
        weights = scores.softmax(-1)
        if mask is not None:
            alive = mask.any(-1, keepdim=True)
            scores = scores.masked_fill(~mask, float("-inf")).masked_fill(~alive, 0.0)
            weights = torch.where(alive, scores.softmax(-1), torch.zeros_like(scores))
        out = (weights.unsqueeze(-1) * v.unsqueeze(-3)).sum(-2)
        return self.o_proj(rearrange(out, "b h s d -> b s (h d)").to(x.dtype))
