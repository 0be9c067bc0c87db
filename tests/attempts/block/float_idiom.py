"""Float32 inside the norm and the softmax, plain helper functions for the rest."""

import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self, d, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d, device=device, dtype=dtype))

    def forward(self, x):
        z = x.float()
        z = z / torch.sqrt(z.pow(2).mean(-1, keepdim=True) + 1e-5)
        return z.type_as(x) * self.weight


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        self.n = num_heads
        for name in "qkvo":
            self.add_module(f"{name}_proj", nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype))

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, self.n, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        s = q.float() @ k.mT.float() * (d // self.n) ** -0.5
        if mask is None:
            p = s.softmax(-1)
        else:
            p = s.masked_fill(~mask, torch.finfo(s.dtype).min).softmax(-1).masked_fill(~mask, 0)
        return self.o_proj((p.to(v.dtype) @ v).transpose(1, 2).reshape(b, t, d))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, device=None, dtype=None):
        super().__init__()
        self.w1 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, device=device, dtype=dtype)
        self.w3 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        self.attn = Attention(d_model, num_heads, device, dtype)
        self.ffn = FeedForward(d_model, d_ff, device, dtype)
        self.attn_norm = Norm(d_model, device, dtype)
        self.ffn_norm = Norm(d_model, device, dtype)


class PreNormBlock(Block):
    def forward(self, x, mask=None):
        x = x + self.attn(self.attn_norm(x), mask)
        return x + self.ffn(self.ffn_norm(x))


class PostNormBlock(Block):
    def forward(self, x, mask=None):
        x = self.attn_norm(x + self.attn(x, mask))
        return self.ffn_norm(x + self.ffn(x))
