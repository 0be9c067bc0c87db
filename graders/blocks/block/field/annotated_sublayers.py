# robust: Half precision: float16 does not hold the fill of -1e9, so a mask raises.
"""The annotated transformer: one function of attention, `clones` of a layer, a sublayer connection of each order."""

import copy
import math

import torch
from torch import nn


def clones(module, n):
    return [copy.deepcopy(module) for _ in range(n)]


def attention(query, key, value, mask=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    return torch.matmul(p_attn, value)


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, **kw):
        super().__init__()
        if d_model % h != 0:
            raise ValueError(f"d_model {d_model} cannot be divided by h {h}")
        self.d_k, self.h = d_model // h, h
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = clones(nn.Linear(d_model, d_model, bias=False, **kw), 4)

    def forward(self, query, key, value, mask=None):
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip((self.q_proj, self.k_proj, self.v_proj), (query, key, value), strict=True)
        ]
        x = attention(query, key, value, mask=mask)
        return self.o_proj(x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k))


class GatedFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, **kw):
        super().__init__()
        self.w1, self.w3 = clones(nn.Linear(d_model, d_ff, bias=False, **kw), 2)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, **kw)

    def forward(self, x):
        return self.w2(nn.functional.silu(self.w1(x)) * self.w3(x))


class Norm(nn.Module):
    def __init__(self, features, eps=1e-5, **kw):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features, **kw))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        return (self.weight * (wide / torch.sqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps))).to(x.dtype)


class PreNormBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.attn = MultiHeadedAttention(num_heads, d_model, **kw)
        self.ffn = GatedFeedForward(d_model, d_ff, **kw)
        self.attn_norm, self.ffn_norm = clones(Norm(d_model, **kw), 2)

    def sublayer(self, x, norm, branch):
        return x + branch(norm(x))

    def forward(self, x, mask=None):
        x = self.sublayer(x, self.attn_norm, lambda x: self.attn(x, x, x, mask))
        return self.sublayer(x, self.ffn_norm, self.ffn)


class PostNormBlock(PreNormBlock):
    def sublayer(self, x, norm, branch):
        return norm(x + branch(x))
