"""Heads by einops, the residual and its norm in one place."""

import torch
from einops import einsum, rearrange
from torch import nn

# with feedforward/gelu_ffn/named_sequential


class Attention(nn.Module):
    """Heads by einops; one function for itself, for a memory, with and without a mask."""

    def __init__(self, d_model, num_heads, **kind):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.h = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d_model, d_model, **kind) for _ in range(4))

    def forward(self, x, source, mask=None):
        work = torch.promote_types(x.dtype, torch.float32)
        pairs = (self.q_proj, x), (self.k_proj, source), (self.v_proj, source)
        q, k, v = (rearrange(proj(t), "b t (h d) -> b h t d", h=self.h).to(work) for proj, t in pairs)
        scores = einsum(q, k, "b h t d, b h s d -> b h t s") / q.shape[-1] ** 0.5
        if mask is not None:
            scores = torch.where(mask, scores, -1e30)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = torch.where(mask, weights, 0.0)
        out = einsum(weights, v, "b h t s, b h s d -> b h t d")
        return self.o_proj(rearrange(out, "b h t d -> b t (h d)").to(x.dtype))


class PostNorm(nn.Module):
    """norm(x + dropout(branch)) as a function that the layers call."""

    def add(self, x, branch, norm):
        return norm(x + self.dropout(branch))


class EncoderLayer(PostNorm):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, **kind):
        super().__init__()
        self.self_attn = Attention(d_model, num_heads, **kind)
        self.ffn = FeedForward(d_model, d_ff, dropout, **kind)
        self.attn_norm, self.ffn_norm = (nn.LayerNorm(d_model, eps, **kind) for _ in range(2))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, padding=None):
        mask = None if padding is None else rearrange(padding, "b s -> b 1 1 s")
        x = self.add(x, self.self_attn(x, x, mask), self.attn_norm)
        return self.add(x, self.ffn(x), self.ffn_norm)
