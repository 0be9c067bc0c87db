"""One base class holds the parts; the two orders are two lines each."""

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

    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
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


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5, **kind):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(d_model, **kind))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        return (nn.functional.rms_norm(wide, wide.shape[-1:], eps=self.eps) * self.weight).to(x.dtype)


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff, **kind):
        super().__init__()
        self.w1, self.w2, self.w3 = (
            nn.Linear(a, b, bias=False, **kind) for a, b in ((d_model, d_ff), (d_ff, d_model), (d_model, d_ff))
        )

    def forward(self, x):
        gate, up = self.w1(x), self.w3(x)
        return self.w2(gate * gate.sigmoid() * up)


class Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.attn, self.ffn = Attention(d_model, num_heads, False, **kind), SwiGLU(d_model, d_ff, **kind)
        self.attn_norm, self.ffn_norm = RMSNorm(d_model, **kind), RMSNorm(d_model, **kind)

    def forward(self, x, mask=None):
        x = self.step(x, lambda h: self.attn(h, mask=mask), self.attn_norm)
        return self.step(x, self.ffn, self.ffn_norm)


class PreNormBlock(Block):
    def step(self, x, branch, norm):
        return torch.add(x, branch(norm(x)))


class PostNormBlock(Block):
    def step(self, x, branch, norm):
        return norm(torch.add(x, branch(x)))
