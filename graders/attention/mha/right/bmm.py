"""Object style: heads folded into the batch, batched matrix products, one stacked projection."""

import torch
from torch import nn


class Scorer:
    def __init__(self, head_dim):
        self.scale = head_dim**0.5

    def __call__(self, q, k, allowed):
        s = torch.bmm(q.float() / self.scale, k.float().transpose(1, 2))
        if allowed is None:
            return torch.softmax(s, -1)
        s = s.masked_fill(~allowed, torch.finfo(torch.float32).min)
        return torch.softmax(s, -1).masked_fill(~allowed, 0)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError("d_model=%d is no multiple of num_heads=%d" % (d_model, num_heads))
        self.h = num_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (
            nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype) for _ in range(4)
        )
        self.scorer = Scorer(d_model // num_heads)

    def fold(self, t):
        b, n, d = t.shape
        return t.view(b, n, self.h, d // self.h).transpose(1, 2).reshape(b * self.h, n, d // self.h)

    def forward(self, x, context=None, mask=None):
        c = x if context is None else context
        b, t, d = x.shape
        k, v = (c @ torch.cat([self.k_proj.weight, self.v_proj.weight]).T).chunk(2, dim=-1)
        allowed = None if mask is None else mask.expand(b, self.h, t, c.shape[1]).reshape(b * self.h, t, -1)
        p = self.scorer(self.fold(self.q_proj(x)), self.fold(k.contiguous()), allowed)
        o = torch.bmm(p, self.fold(v.contiguous()).float()).to(x.dtype)
        return self.o_proj(o.view(b, self.h, t, -1).transpose(1, 2).reshape(b, t, d))
