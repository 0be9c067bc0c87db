# Mask as a keyword only.
import math

import torch
from torch import nn


class GroupedQueryAttention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, d_model // num_heads
        self.group = num_heads // num_kv_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)

    def forward(self, x, *, mask=None):
        b, n, d = x.shape
        q = self.q_proj(x).unflatten(-1, (self.num_kv_heads, self.group, self.head_dim)).permute(0, 2, 3, 1, 4)
        k = self.k_proj(x).unflatten(-1, (self.num_kv_heads, self.head_dim)).transpose(1, 2).unsqueeze(2)
        v = self.v_proj(x).unflatten(-1, (self.num_kv_heads, self.head_dim)).transpose(1, 2).unsqueeze(2)
        dtype = q.dtype
        wide = torch.promote_types(dtype, torch.float32)
        q, k, v = q.to(wide), k.to(wide), v.to(wide)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        if mask is None:
            weights = torch.softmax(scores, dim=-1)
        else:
            mask = mask.expand(b, self.num_heads, n, n).unflatten(1, (self.num_kv_heads, self.group))
            alive = mask.any(dim=-1, keepdim=True)
            scores = torch.where(mask | ~alive, scores, -math.inf)
            weights = torch.where(alive, torch.softmax(scores, dim=-1), 0.0)
        out = (weights @ v).to(dtype)
        return self.o_proj(out.permute(0, 3, 1, 2, 4).reshape(b, n, d))
