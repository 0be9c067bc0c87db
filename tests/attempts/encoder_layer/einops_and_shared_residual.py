"""Heads by einops, the residual and its norm in one place."""

import torch
from einops import einsum, rearrange
from torch import nn


class Attention(nn.Module):
    """Heads by einops; one function for itself, for a memory, with and without a mask."""

    def __init__(self, d_model, num_heads, bias, **kind):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.h = num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=bias, **kind)
        self.k_proj = nn.Linear(d_model, d_model, bias=bias, **kind)
        self.v_proj = nn.Linear(d_model, d_model, bias=bias, **kind)
        self.o_proj = nn.Linear(d_model, d_model, bias=bias, **kind)

    def forward(self, x, source, mask=None):
        work = torch.promote_types(x.dtype, torch.float32)
        q = rearrange(self.q_proj(x), "b t (h d) -> b h t d", h=self.h).to(work)
        k = rearrange(self.k_proj(source), "b s (h d) -> b h s d", h=self.h).to(work)
        v = rearrange(self.v_proj(source), "b s (h d) -> b h s d", h=self.h).to(work)
        scores = einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5
        if mask is not None:
            scores = torch.where(mask, scores, -1e30)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = torch.where(mask, weights, 0.0)
        out = einsum(weights, v, "b h t s, b h s d -> b h t d")
        return self.o_proj(rearrange(out, "b h t d -> b t (h d)").to(x.dtype))


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout, **kind):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, **kind)
        self.fc2 = nn.Linear(d_ff, d_model, **kind)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.fc2(self.dropout(nn.functional.gelu(self.fc1(x))))


class PostNorm(nn.Module):
    """norm(x + dropout(branch)) as a function that the layers call."""

    def add(self, x, branch, norm):
        return norm(x + self.dropout(branch))


class EncoderLayer(PostNorm):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.self_attn = Attention(d_model, num_heads, True, **kind)
        self.ffn = FeedForward(d_model, d_ff, dropout, **kind)
        self.attn_norm = nn.LayerNorm(d_model, eps, **kind)
        self.ffn_norm = nn.LayerNorm(d_model, eps, **kind)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, padding=None):
        mask = None if padding is None else rearrange(padding, "b s -> b 1 1 s")
        x = self.add(x, self.self_attn(x, x, mask), self.attn_norm)
        return self.add(x, self.ffn(x), self.ffn_norm)
