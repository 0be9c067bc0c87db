"""Float32 for everything after the projections, -inf and zeros by `where` for rows that see nothing."""

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

    def split(self, t):
        return t.reshape(*t.shape[:2], self.num_heads, self.head_dim).permute(0, 2, 1, 3).float()

    def forward(self, x, context=None, mask=None):
        if context is None:
            context = x
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(context)), self.split(self.v_proj(context))
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head_dim)
        if mask is not None:
            dead = ~mask.any(dim=-1, keepdim=True)
            scores = torch.where(dead, 0.0, torch.where(mask, scores, float("-inf")))
        p = scores.softmax(dim=-1)
        if mask is not None:
            p = torch.where(dead, 0.0, p)
        return self.o_proj((p @ v).transpose(1, 2).reshape(x.shape).to(x.dtype))
