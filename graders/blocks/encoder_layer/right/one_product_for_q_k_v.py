"""Functional over bags of linear layers; projections of the same input are one product over stacked weights."""

import torch
import torch.nn.functional as F
from torch import nn


class _Layer(nn.Module):
    """The weights of a layer by name, and what encoder and decoder layers do with them."""

    attentions, norms = ("self_attn",), ("attn_norm", "ffn_norm")

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads:
            raise ValueError("num_heads %d does not divide d_model %d" % (num_heads, d_model))
        self.num_heads, self.p = num_heads, dropout
        kind = dict(device=device, dtype=dtype)
        for name in self.attentions:
            self.add_module(name, nn.ModuleDict({f"{n}_proj": nn.Linear(d_model, d_model, **kind) for n in "qkvo"}))
        for name in self.norms:
            self.add_module(name, nn.LayerNorm(d_model, eps, **kind))
        self.ffn = nn.ModuleDict({"fc1": nn.Linear(d_model, d_ff, **kind), "fc2": nn.Linear(d_ff, d_model, **kind)})

    def drop(self, t):
        return F.dropout(t, self.p, self.training)

    def heads(self, x, attn, names):
        stacked = lambda what: torch.cat([getattr(attn[f"{n}_proj"], what) for n in names])
        parts = F.linear(x, stacked("weight"), stacked("bias")).unflatten(-1, (len(names), self.num_heads, -1))
        return parts.permute(2, 0, 3, 1, 4).to(torch.promote_types(x.dtype, torch.float32))

    def attend(self, attn, seen, q, k, v):
        scores = torch.matmul(q * q.shape[-1] ** -0.5, k.mT)
        weights = F.softmax(torch.where(seen, scores, torch.finfo(scores.dtype).min), -1) * seen
        merged = (self.drop(weights) @ v).transpose(1, 2).flatten(2)
        return self.drop(attn["o_proj"](merged.to(attn["o_proj"].weight.dtype)))

    def feed(self, x):
        return self.drop(self.ffn["fc2"](self.drop(F.gelu(self.ffn["fc1"](x)))))


def real(x, padding):
    """Which keys are real tokens: all of them where nothing is said of it."""
    return torch.ones_like(x[:, None, None, :, 0], dtype=torch.bool) if padding is None else padding[:, None, None]


class EncoderLayer(_Layer):
    def forward(self, x, padding=None):
        a = self.self_attn
        x = self.attn_norm(x + self.attend(a, real(x, padding), *self.heads(x, a, "qkv")))
        return self.ffn_norm(x + self.feed(x))
