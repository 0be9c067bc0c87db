"""Modules only hold weights; functions run them by einsum, in float32 or float64 from the first line to the last."""

import torch
from torch import nn


class Weights(nn.Module):
    """A part with a weight for every shape, a part of parts for every dict of shapes."""

    def __init__(self, shapes, device=None, dtype=None):
        super().__init__()
        for name, shape in shapes.items():
            part = Weights(shape if isinstance(shape, dict) else {}, device, dtype)
            if not isinstance(shape, dict):
                start = torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * shape[-1] ** -0.5
                part.weight = nn.Parameter(start.to(device=device, dtype=dtype or torch.get_default_dtype()))
            self.add_module(name, part)


def layer_shapes(d_model, d_ff, kv_dim):
    square, up = (d_model, d_model), (d_ff, d_model)
    attn = {"q_proj": square, "k_proj": (kv_dim, d_model), "v_proj": (kv_dim, d_model), "o_proj": square}
    ffn = {"w1": up, "w2": (d_model, d_ff), "w3": up}
    return {"attn": attn, "ffn": ffn, "attn_norm": (d_model,), "ffn_norm": (d_model,)}


def linear(x, part):
    return torch.einsum("...i,oi->...o", x, part.weight.to(x.dtype))


def norm(x, part, eps=1e-5):
    return x * (x.square().mean(-1, keepdim=True) + eps).rsqrt() * part.weight.to(x.dtype)


def swiglu(x, ffn):
    gate = linear(x, ffn.w1)
    return linear(gate * gate.sigmoid() * linear(x, ffn.w3), ffn.w2)


def attention(x, attn, heads, mask=None, turn=lambda t: t):
    """`turn` rotates queries and keys in the kata lm, where heads may share keys as well."""
    q = linear(x, attn.q_proj).unflatten(-1, (heads, -1))
    k, v = (linear(x, p).unflatten(-1, (-1, q.shape[-1])) for p in (attn.k_proj, attn.v_proj))
    q, k = turn(q).unflatten(2, (k.shape[2], -1)), turn(k)
    scores = torch.einsum("btgrd,bsgd->bgrts", q, k).flatten(1, 2) / q.shape[-1] ** 0.5
    scores = scores if mask is None else scores.masked_fill(~mask, -1e30)
    p = torch.softmax(scores, -1)
    p = p if mask is None else p * mask.any(-1, keepdim=True)
    return linear(torch.einsum("bgrts,bsgd->btgrd", p.unflatten(1, q.shape[2:4]), v).flatten(2), attn.o_proj)


class PreNormBlock(Weights):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__(layer_shapes(d_model, d_ff, d_model), device, dtype)
        if d_model % num_heads != 0:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.heads = num_heads

    def forward(self, x, mask=None):
        z = x.to(torch.promote_types(x.dtype, torch.float32))
        z = z + attention(norm(z, self.attn_norm), self.attn, self.heads, mask)
        return (z + swiglu(norm(z, self.ffn_norm), self.ffn)).to(x.dtype)


class PostNormBlock(PreNormBlock):
    def forward(self, x, mask=None):
        z = x.to(torch.promote_types(x.dtype, torch.float32))
        z = norm(z + attention(z, self.attn, self.heads, mask), self.attn_norm)
        return norm(z + swiglu(z, self.ffn), self.ffn_norm).to(x.dtype)
