# robust: Masked rows, Half precision, Errors: a row of padding alone is averaged, float16 does not hold the fill of -1e9,
# and assertions are gone under `python -O`.
"""The annotated transformer: `clones` of a module, masks of zeros and ones, sublayer connections."""

import copy
import math

import torch
from torch import nn


def clones(module, n):
    return [copy.deepcopy(module) for _ in range(n)]


def attention(query, key, value, mask=None, dropout=None):
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return torch.matmul(dropout(scores.softmax(dim=-1)), value)


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1, **kw):
        super().__init__()
        assert d_model % h == 0
        self.d_k, self.h = d_model // h, h
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = clones(nn.Linear(d_model, d_model, **kw), 4)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query, key, value = [
            lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
            for lin, x in zip((self.q_proj, self.k_proj, self.v_proj), (query, key, value), strict=True)
        ]
        x = attention(query, key, value, mask=mask, dropout=self.dropout)
        return self.o_proj(x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k))


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1, **kw):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff, **kw), nn.Linear(d_ff, d_model, **kw)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.fc2(self.dropout(nn.functional.gelu(self.fc1(x))))


class Layer(nn.Module):
    attentions, norms = ("self_attn",), ("attn_norm", "ffn_norm")

    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        for name in self.attentions:
            setattr(self, name, MultiHeadedAttention(num_heads, d_model, dropout, **kw))
        for name in self.norms:
            setattr(self, name, nn.LayerNorm(d_model, eps, **kw))
        self.ffn = PositionwiseFeedForward(d_model, d_ff, dropout, **kw)
        self.dropout = nn.Dropout(dropout)

    def sublayer(self, x, norm, branch):
        return norm(x + self.dropout(branch(x)))


class EncoderLayer(Layer):
    def forward(self, x, padding=None):
        mask = None if padding is None else padding.unsqueeze(-2)
        x = self.sublayer(x, self.attn_norm, lambda x: self.self_attn(x, x, x, mask))
        return self.sublayer(x, self.ffn_norm, self.ffn)
