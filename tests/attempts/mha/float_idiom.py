"""Float32 for everything after the projections, -inf and nan_to_num for rows that see nothing."""

import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model ({d_model}) must be divisible by num_heads ({num_heads})")
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype))

    def forward(self, x, context=None, mask=None):
        if context is None:
            context = x
        b, t, d = x.shape
        s = context.shape[1]
        q = self.q_proj(x).reshape(b, t, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        k = self.k_proj(context).reshape(b, s, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        v = self.v_proj(context).reshape(b, s, self.num_heads, self.head_dim).permute(0, 2, 1, 3)
        scores = q.float() @ k.transpose(-1, -2).float() / math.sqrt(self.head_dim)
        if mask is not None:
            scores = torch.where(mask, scores, float("-inf"))
            dead = ~mask.any(dim=-1, keepdim=True)
            scores = torch.where(dead, 0.0, scores)
        p = scores.softmax(dim=-1)
        if mask is not None:
            p = torch.where(dead, 0.0, p)
        out = p @ v.float()
        return self.o_proj(out.transpose(1, 2).reshape(b, t, d).to(x.dtype))
