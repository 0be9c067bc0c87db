# robust: a memory of padding alone is averaged, and float16 does not hold the fill of -1e9.
"""The annotated transformer: `clones`, `subsequent_mask`, masks of zeros and ones, sublayer connections."""

import copy
import math

import torch
from torch import nn


def clones(module, n):
    return [copy.deepcopy(module) for _ in range(n)]


def subsequent_mask(size, device):
    attn_shape = (1, size, size)
    return torch.triu(torch.ones(attn_shape, device=device), diagonal=1).type(torch.uint8) == 0


def attention(query, key, value, mask=None, dropout=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = scores.softmax(dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1, **kw):
        super().__init__()
        if d_model % h != 0:
            raise ValueError(f"d_model {d_model} cannot be divided by h {h}")
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
        x, _ = attention(query, key, value, mask=mask, dropout=self.dropout)
        return self.o_proj(x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k))


class PositionwiseFeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout=0.1, **kw):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d_model, d_ff, **kw), nn.Linear(d_ff, d_model, **kw)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return self.fc2(self.dropout(nn.functional.gelu(self.fc1(x))))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.self_attn, self.cross_attn = clones(MultiHeadedAttention(num_heads, d_model, dropout, **kw), 2)
        self.ffn = PositionwiseFeedForward(d_model, d_ff, dropout, **kw)
        self.self_attn_norm, self.cross_attn_norm, self.ffn_norm = clones(nn.LayerNorm(d_model, eps, **kw), 3)
        self.dropout = nn.Dropout(dropout)

    def sublayer(self, x, norm, branch):
        return norm(x + self.dropout(branch(x)))

    def forward(self, x, memory, memory_padding=None):
        m, tgt_mask = memory, subsequent_mask(x.size(1), x.device)
        src_mask = None if memory_padding is None else memory_padding.unsqueeze(-2)
        x = self.sublayer(x, self.self_attn_norm, lambda x: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayer(x, self.cross_attn_norm, lambda x: self.cross_attn(x, m, m, src_mask))
        return self.sublayer(x, self.ffn_norm, self.ffn)
