# robust: Masked rows, Half precision, Errors: at -1e9 such a row is the mean of what it must not see, float16 does not
# hold -1e9, and an assertion is gone under `python -O`.
"""The annotated transformer's module: heads by view and transpose, masked scores at -1e9."""

import math

import torch
from torch import nn


def attention(query, key, value, mask=None):
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return torch.matmul(scores.softmax(dim=-1), value)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        super().__init__()
        assert d_model % num_heads == 0
        self.d_k = d_model // num_heads
        self.h = num_heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype))

    def forward(self, x, context=None, mask=None):
        nbatches = x.size(0)
        context = x if context is None else context
        query, key, value = (
            lin(each).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, each in ((self.q_proj, x), (self.k_proj, context), (self.v_proj, context))
        )
        x = attention(query, key, value, mask=mask)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        return self.o_proj(x)
