# Python loop over the batch when the mask has four dimensions.
import math

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self, d_model, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        self.eps = 1e-5

    def forward(self, x):
        y = x if x.dtype == torch.float64 else x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return (y * self.weight.to(y.dtype)).to(self.weight.dtype)


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        self.num_heads = num_heads
        kw = dict(bias=False, device=device, dtype=dtype)
        self.q_proj = nn.Linear(d_model, d_model, **kw)
        self.k_proj = nn.Linear(d_model, d_model, **kw)
        self.v_proj = nn.Linear(d_model, d_model, **kw)
        self.o_proj = nn.Linear(d_model, d_model, **kw)

    def forward(self, x, mask=None):
        batch, seq, d_model = x.shape
        mask_dim = 0 if mask is None else mask.dim()
        work = torch.float64 if x.dtype == torch.float64 else torch.float32
        heads = lambda t: t.to(work).reshape(batch, seq, self.num_heads, -1).transpose(1, 2)
        q, k, v = heads(self.q_proj(x)), heads(self.k_proj(x)), heads(self.v_proj(x))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if mask is None:
            weights = scores.softmax(-1)
        else:
            mask = mask.expand(batch, self.num_heads, seq, seq)
            dead = ~mask.any(-1, keepdim=True)
            weights = scores.masked_fill(~mask & ~dead, -torch.inf).softmax(-1).masked_fill(dead, 0.0)
        if mask is not None and mask_dim == 4:
            weights = torch.stack([w_.clone() for w_ in weights])
        y = (weights @ v).transpose(1, 2).reshape(batch, seq, d_model)
        return self.o_proj(y.to(x.dtype))


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff, *, device=None, dtype=None):
        super().__init__()
        kw = dict(bias=False, device=device, dtype=dtype)
        self.w1 = nn.Linear(d_model, d_ff, **kw)
        self.w2 = nn.Linear(d_ff, d_model, **kw)
        self.w3 = nn.Linear(d_model, d_ff, **kw)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class PreNormBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        kw = dict(device=device, dtype=dtype)
        self.attn = Attention(d_model, num_heads, **kw)
        self.ffn = SwiGLU(d_model, d_ff, **kw)
        self.attn_norm = Norm(d_model, **kw)
        self.ffn_norm = Norm(d_model, **kw)

    def forward(self, x, mask=None):
        h = x + self.attn(self.attn_norm(x), mask)
        return h + self.ffn(self.ffn_norm(h))


class PostNormBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}.")
        kw = dict(device=device, dtype=dtype)
        self.attn = Attention(d_model, num_heads, **kw)
        self.ffn = SwiGLU(d_model, d_ff, **kw)
        self.attn_norm = Norm(d_model, **kw)
        self.ffn_norm = Norm(d_model, **kw)

    def forward(self, x, mask=None):
        h = self.attn_norm(x + self.attn(x, mask))
        return self.ffn_norm(h + self.ffn(h))
