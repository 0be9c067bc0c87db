"""Llama's TransformerBlock; the post-norm block has its parts in the older order."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5, **kw):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim, **kw))

    def _norm(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)

    def forward(self, x):
        return self._norm(x.float()).type_as(x) * self.weight


class Attention(nn.Module):
    def __init__(self, dim, n_heads, **kw):
        super().__init__()
        if dim % n_heads:
            raise ValueError(f"dim {dim} must be divisible by n_heads {n_heads}")
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.q_proj = nn.Linear(dim, dim, bias=False, **kw)
        self.k_proj = nn.Linear(dim, dim, bias=False, **kw)
        self.v_proj = nn.Linear(dim, dim, bias=False, **kw)
        self.o_proj = nn.Linear(dim, dim, bias=False, **kw)

    def forward(self, x, mask):
        bsz, seqlen, _ = x.shape
        xq, xk, xv = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        xq = xq.view(bsz, seqlen, self.n_heads, self.head_dim).transpose(1, 2)
        xk = xk.view(bsz, seqlen, self.n_heads, self.head_dim).transpose(1, 2)
        xv = xv.view(bsz, seqlen, self.n_heads, self.head_dim).transpose(1, 2)
        scores = torch.matmul(xq, xk.transpose(2, 3)) / math.sqrt(self.head_dim)
        if mask is not None:
            scores = scores + torch.zeros(mask.shape, device=x.device).masked_fill(~mask, float("-inf")).type_as(x)
        scores = F.softmax(scores.float(), dim=-1).type_as(xq)
        output = torch.matmul(scores, xv)
        return self.o_proj(output.transpose(1, 2).contiguous().view(bsz, seqlen, -1))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim, **kw):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=False, **kw)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False, **kw)
        self.w3 = nn.Linear(dim, hidden_dim, bias=False, **kw)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class TransformerBlock(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.attn, self.ffn = Attention(d_model, num_heads, **kw), FeedForward(d_model, d_ff, **kw)
        self.attn_norm, self.ffn_norm = RMSNorm(d_model, **kw), RMSNorm(d_model, **kw)


class PreNormBlock(TransformerBlock):
    def forward(self, x, mask=None):
        h = x + self.attn(self.attn_norm(x), mask)
        out = h + self.ffn(self.ffn_norm(h))
        return out


class PostNormBlock(TransformerBlock):
    def forward(self, x, mask=None):
        h = self.attn_norm(x + self.attn(x, mask))
        out = self.ffn_norm(h + self.ffn(h))
        return out
