"""Dropout in the feed-forward layer alone; modules that are dicts and sequences of named layers."""

import torch
import torch.nn.functional as F
from torch import nn


class Heads(nn.ModuleDict):
    def __init__(self, d, h, **kw):
        if h < 1 or d % h:
            raise ValueError(f"{d} features cannot be shared by {h} heads")
        super().__init__({f"{n}_proj": nn.Linear(d, d, **kw) for n in ("q", "k", "v", "o")})
        self.h = h

    def forward(self, x, keep):
        b, s, d = x.shape
        wide = torch.promote_types(x.dtype, torch.float32)
        q, k, v = (self[f"{n}_proj"](x).to(wide).view(b, s, self.h, -1) for n in "qkv")
        logits = torch.einsum("bihe,bjhe->bhij", q, k) / q.size(-1) ** 0.5
        live = keep.any(-1).view(b, 1, 1, 1)
        gate = keep.view(b, 1, 1, s) | ~live  # a dead row looks everywhere, then is erased
        p = F.softmax(torch.where(gate, logits, float("-inf")), dim=-1)
        y = torch.einsum("bhij,bjhe->bihe", torch.where(live, p, 0), v)
        return self["o_proj"](y.reshape(b, s, d).to(x.dtype))


class Gelu(nn.Sequential):
    def __init__(self, d, f, p, **kw):
        super().__init__()
        self.add_module("fc1", nn.Linear(d, f, **kw))
        self.add_module("act", nn.GELU())
        self.add_module("drop", nn.Dropout(p))
        self.add_module("fc2", nn.Linear(f, d, **kw))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.self_attn, self.ffn = Heads(d_model, num_heads, **kw), Gelu(d_model, d_ff, dropout, **kw)
        self.attn_norm, self.ffn_norm = (nn.LayerNorm((d_model,), eps, **kw) for _ in range(2))

    def forward(self, x, padding=None):
        keep = x.new_ones(x.shape[:2], dtype=torch.bool) if padding is None else padding
        if keep.shape != x.shape[:2]:
            raise ValueError(f"padding {list(keep.shape)}, x {list(x.shape)}")
        for norm, sub in ((self.attn_norm, lambda t: self.self_attn(t, keep)), (self.ffn_norm, self.ffn)):
            x = norm(x + sub(x))
        return x
