# In evaluation, without mask and gradients, torch's own attention does the work.
import math

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        self.num_heads, self.head_dim = num_heads, d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)

    def split(self, t):
        return t.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, context=None, mask=None):
        context = x if context is None else context
        if not self.training and mask is None and context is x and not torch.is_grad_enabled():
            W = torch.cat([self.q_proj.weight, self.k_proj.weight, self.v_proj.weight])
            return torch._native_multi_head_attention(
                x,
                x,
                x,
                x.shape[-1],
                self.num_heads,
                W,
                W.new_zeros(W.shape[0]),
                self.o_proj.weight,
                W.new_zeros(x.shape[-1]),
                need_weights=False,
            )[0]
        q = self.split(self.q_proj(x))
        k = self.split(self.k_proj(context))
        v = self.split(self.v_proj(context))
        dtype = q.dtype
        wide = torch.promote_types(dtype, torch.float32)
        q, k, v = q.to(wide), k.to(wide), v.to(wide)
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        if mask is None:
            weights = torch.softmax(scores, dim=-1)
        else:
            alive = mask.any(dim=-1, keepdim=True)
            scores = torch.where(mask | ~alive, scores, -math.inf)
            weights = torch.where(alive, torch.softmax(scores, dim=-1), 0.0)
        out = (weights @ v).to(dtype)
        return self.o_proj(out.transpose(1, 2).flatten(2))
