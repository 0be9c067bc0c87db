"""Each head is a function of its own queries, keys and values; vmap runs all heads of all entries."""

import torch
from torch import nn
from torch.func import vmap


def head(q, k, v, mask):
    scores = torch.where(mask, q @ k.mT * q.shape[-1] ** -0.5, -1e30)
    e = torch.exp(scores - scores.amax(-1, keepdim=True)) * mask
    return e @ v / e.sum(-1, keepdim=True).clamp_min(1e-30)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, bias=False, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"{num_heads} heads do not divide d_model {d_model}")
        self.num_heads = num_heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=bias, device=device, dtype=dtype))

    def forward(self, x, context=None, mask=None):
        source = x if context is None else context
        work = torch.promote_types(x.dtype, torch.float32)
        q, k, v = (
            t.unflatten(-1, (self.num_heads, -1)).movedim(-2, 1).to(work)
            for t in (self.q_proj(x), self.k_proj(source), self.v_proj(source))
        )
        mask = torch.ones((), dtype=torch.bool, device=x.device) if mask is None else mask
        out = vmap(vmap(head))(q, k, v, mask.expand(*q.shape[:-1], k.shape[-2]))
        return self.o_proj(out.movedim(1, -2).flatten(-2).to(x.dtype))
