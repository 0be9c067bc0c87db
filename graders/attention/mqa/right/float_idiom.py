"""The `.float()` idiom around softmax, masked scores at the smallest number, one head by unsqueeze."""

import math

import torch
from torch import nn


class MultiQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} must be a multiple of num_heads {num_heads}")
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        kw = dict(bias=False, device=device, dtype=dtype)
        self.q_proj = nn.Linear(d_model, d_model, **kw)
        self.k_proj = nn.Linear(d_model, self.head_dim, **kw)
        self.v_proj = nn.Linear(d_model, self.head_dim, **kw)
        self.o_proj = nn.Linear(d_model, d_model, **kw)

    def forward(self, x, mask=None):
        b, t, d = x.shape
        q = self.q_proj(x).view(b, t, self.num_heads, -1).transpose(1, 2)
        k, v = self.k_proj(x).unsqueeze(1), self.v_proj(x).unsqueeze(1)
        scores = torch.matmul(q.float(), k.transpose(2, 3).float()) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights * mask.any(dim=-1, keepdim=True)
        out = torch.matmul(weights.to(x.dtype), v)
        return self.o_proj(out.transpose(1, 2).reshape(b, t, d))
