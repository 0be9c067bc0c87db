"""vmap over entries and heads; parts as plain functions of named weights."""

import math

import torch
from torch import nn
from torch.func import vmap


def head(q, k, v, mask):
    scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask, -torch.inf)
    scores = torch.where(mask.any(-1, keepdim=True), scores, 0.0)
    return torch.softmax(scores, -1).masked_fill(~mask, 0.0) @ v


class Weights(nn.Module):
    """Linear layers by name, without biases."""

    def __init__(self, kind, **shapes):
        super().__init__()
        for name, (wide, narrow) in shapes.items():
            setattr(self, name, nn.Linear(wide, narrow, bias=False, **kind))


class Scale(nn.Module):
    def __init__(self, d_model, kind):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model, **kind))

    def forward(self, x):
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        root = (wide.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt()
        return (wide / root * self.weight).to(x.dtype)


class _Block(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        if num_heads <= 0 or d_model % num_heads:
            raise ValueError(f"num_heads {num_heads} for d_model {d_model}")
        kind, square = {"device": device, "dtype": dtype}, (d_model, d_model)
        self.num_heads = num_heads
        self.attn = Weights(kind, q_proj=square, k_proj=square, v_proj=square, o_proj=square)
        self.ffn = Weights(kind, w1=(d_model, d_ff), w2=(d_ff, d_model), w3=(d_model, d_ff))
        self.attn_norm, self.ffn_norm = Scale(d_model, kind), Scale(d_model, kind)

    def attend(self, x, mask):
        a, work = self.attn, torch.promote_types(x.dtype, torch.float32)
        q, k, v = (p(x).unflatten(-1, (self.num_heads, -1)).to(work) for p in (a.q_proj, a.k_proj, a.v_proj))
        mask = torch.tensor(True, device=x.device) if mask is None else mask
        mask = mask.expand(x.shape[0], self.num_heads, x.shape[1], x.shape[1])
        heads = vmap(vmap(head, in_dims=(1, 1, 1, 0), out_dims=1))(q, k, v, mask)
        return a.o_proj(heads.flatten(2).to(x.dtype))

    def feed(self, x):
        gate = self.ffn.w1(x)
        return self.ffn.w2(nn.functional.silu(gate) * self.ffn.w3(x))


class PreNormBlock(_Block):
    def forward(self, x, mask=None):
        h = x + self.attend(self.attn_norm(x), mask)
        return h + self.feed(self.ffn_norm(h))


class PostNormBlock(_Block):
    def forward(self, x, mask=None):
        h = self.attn_norm(x + self.attend(x, mask))
        return self.ffn_norm(h + self.feed(h))
