# robust: a source of padding alone is averaged, float16 does not hold the fill of -1e9, the table is a saved buffer.
"""The annotated transformer: `clones`, `subsequent_mask`, positions in a buffer, sublayer connections."""

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


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, dropout, max_len=5000, device=None):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        pe = torch.zeros(max_len, d_model, device=device)
        position = torch.arange(0, max_len, device=device).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2, device=device) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        x = x + self.pe[:, : x.size(1)].requires_grad_(False)
        return self.dropout(x)


class Layer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout, **kw):
        super().__init__()
        self.self_attn = MultiHeadedAttention(num_heads, d_model, dropout, **kw)
        self.ffn = PositionwiseFeedForward(d_model, d_ff, dropout, **kw)
        self.dropout = nn.Dropout(dropout)

    def sublayer(self, x, norm, branch):
        return norm(x + self.dropout(branch(x)))


class EncoderLayer(Layer):
    def __init__(self, d_model, num_heads, d_ff, dropout, **kw):
        super().__init__(d_model, num_heads, d_ff, dropout, **kw)
        self.attn_norm, self.ffn_norm = clones(nn.LayerNorm(d_model, 1e-12, **kw), 2)

    def forward(self, x, mask):
        x = self.sublayer(x, self.attn_norm, lambda x: self.self_attn(x, x, x, mask))
        return self.sublayer(x, self.ffn_norm, self.ffn)


class DecoderLayer(Layer):
    def __init__(self, d_model, num_heads, d_ff, dropout, **kw):
        super().__init__(d_model, num_heads, d_ff, dropout, **kw)
        self.cross_attn = MultiHeadedAttention(num_heads, d_model, dropout, **kw)
        self.self_attn_norm, self.cross_attn_norm, self.ffn_norm = clones(nn.LayerNorm(d_model, 1e-12, **kw), 3)

    def forward(self, x, memory, src_mask, tgt_mask):
        m = memory
        x = self.sublayer(x, self.self_attn_norm, lambda x: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayer(x, self.cross_attn_norm, lambda x: self.cross_attn(x, m, m, src_mask))
        return self.sublayer(x, self.ffn_norm, self.ffn)


class Seq2SeqTransformer(nn.Module):
    def __init__(
        self,
        src_vocab,
        tgt_vocab,
        d_model,
        num_layers,
        num_heads,
        d_ff,
        max_len,
        dropout=0.0,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        self.d_model = d_model
        self.src_embedding = nn.Embedding(src_vocab, d_model, **kw)
        self.tgt_embedding = nn.Embedding(tgt_vocab, d_model, **kw)
        self.position = PositionalEncoding(d_model, dropout, max_len, device)
        self.encoder_layers = nn.ModuleList(clones(EncoderLayer(d_model, num_heads, d_ff, dropout, **kw), num_layers))
        self.decoder_layers = nn.ModuleList(clones(DecoderLayer(d_model, num_heads, d_ff, dropout, **kw), num_layers))
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **kw)

    def forward(self, src, tgt, src_padding=None):
        src_mask = None if src_padding is None else src_padding.unsqueeze(-2)
        return self.lm_head(self.decode(self.encode(src, src_mask), src_mask, tgt))

    def encode(self, src, src_mask):
        x = self.position(self.src_embedding(src) * math.sqrt(self.d_model))
        for layer in self.encoder_layers:
            x = layer(x, src_mask)
        return x

    def decode(self, memory, src_mask, tgt):
        x = self.position(self.tgt_embedding(tgt) * math.sqrt(self.d_model))
        for layer in self.decoder_layers:
            x = layer(x, memory, src_mask, subsequent_mask(tgt.size(1), tgt.device))
        return x
