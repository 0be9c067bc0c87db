"""Object style, out of the library's own norm and attention."""

import torch
import torch.nn.functional as F
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, **kw):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"{d_model} features do not split into {num_heads} heads")
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False, **kw)
        self.k_proj = nn.Linear(d_model, d_model, bias=False, **kw)
        self.v_proj = nn.Linear(d_model, d_model, bias=False, **kw)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, **kw)

    def forward(self, x, mask=None):
        q, k, v = (
            f(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class GLU(nn.Module):
    def __init__(self, d_model, d_ff, **kw):
        super().__init__()
        self.w1, self.w3 = (nn.Linear(d_model, d_ff, bias=False, **kw) for _ in range(2))
        self.w2 = nn.Linear(d_ff, d_model, bias=False, **kw)
        self.silu = nn.SiLU()

    def forward(self, x):
        return self.w2(self.silu(self.w1(x)) * self.w3(x))


class PreNormBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.attn_norm = nn.RMSNorm(d_model, eps=1e-5, **kw)
        self.attn = SelfAttention(d_model, num_heads, **kw)
        self.ffn_norm = nn.RMSNorm(d_model, eps=1e-5, **kw)
        self.ffn = GLU(d_model, d_ff, **kw)

    def forward(self, x, mask=None):
        h = x + self.attn(self.attn_norm(x), mask)
        return h + self.ffn(self.ffn_norm(h))


class PostNormBlock(PreNormBlock):
    def forward(self, x, mask=None):
        h = self.attn_norm(x + self.attn(x, mask))
        return self.ffn_norm(torch.add(h, self.ffn(h)))
