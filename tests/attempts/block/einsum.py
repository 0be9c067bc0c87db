"""Einsum over named weights, everything in float32 or float64 from the first line to the last."""

import torch
from torch import nn


class Holder(nn.Module):
    def __init__(self, shapes, device, dtype):
        super().__init__()
        for name, shape in shapes.items():
            part = nn.Module()
            start = torch.ones(shape) if len(shape) == 1 else torch.randn(shape) * shape[-1] ** -0.5
            part.weight = nn.Parameter(start.to(device=device, dtype=dtype or torch.get_default_dtype()))
            setattr(self, name, part)


def rms(x, weight):
    return x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt() * weight


class Base(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"num_heads {num_heads} does not divide d_model {d_model}")
        self.heads = num_heads
        square = (d_model, d_model)
        self.attn = Holder({f"{n}_proj": square for n in "qkvo"}, device, dtype)
        self.ffn = Holder({"w1": (d_ff, d_model), "w2": (d_model, d_ff), "w3": (d_ff, d_model)}, device, dtype)
        norms = Holder({"attn_norm": (d_model,), "ffn_norm": (d_model,)}, device, dtype)
        self.attn_norm, self.ffn_norm = norms.attn_norm, norms.ffn_norm

    def wide(self, module, dtype):
        return module.weight.to(dtype)

    def attend(self, x, mask):
        w = {n: self.wide(getattr(self.attn, f"{n}_proj"), x.dtype).unflatten(0, (self.heads, -1)) for n in "qkv"}
        q, k, v = (torch.einsum("btm,hdm->bhtd", x, w[n]) for n in "qkv")
        scores = torch.einsum("bhtd,bhsd->bhts", q, k) / q.shape[-1] ** 0.5
        if mask is not None:
            scores = scores.masked_fill(~mask, -1e30)
        p = torch.softmax(scores, -1)
        if mask is not None:
            p = p * mask.any(-1, keepdim=True)
        merged = torch.einsum("bhts,bhsd->bthd", p, v).flatten(-2)
        return torch.einsum("bti,oi->bto", merged, self.wide(self.attn.o_proj, x.dtype))

    def feed(self, x):
        a = torch.einsum("bti,oi->bto", x, self.wide(self.ffn.w1, x.dtype))
        b = torch.einsum("bti,oi->bto", x, self.wide(self.ffn.w3, x.dtype))
        return torch.einsum("bti,oi->bto", a * a.sigmoid() * b, self.wide(self.ffn.w2, x.dtype))


class PreNormBlock(Base):
    def forward(self, x, mask=None):
        z = x.to(torch.promote_types(x.dtype, torch.float32))
        z = z + self.attend(rms(z, self.wide(self.attn_norm, z.dtype)), mask)
        z = z + self.feed(rms(z, self.wide(self.ffn_norm, z.dtype)))
        return z.to(x.dtype)


class PostNormBlock(Base):
    def forward(self, x, mask=None):
        z = x.to(torch.promote_types(x.dtype, torch.float32))
        z = rms(z + self.attend(z, mask), self.wide(self.attn_norm, z.dtype))
        z = rms(z + self.feed(z), self.wide(self.ffn_norm, z.dtype))
        return z.to(x.dtype)
