import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, dropout, **factory):
        super().__init__()
        if d_model % num_heads:
            raise ValueError(f"embedding of {d_model} cannot be split into {num_heads} heads")
        self.num_heads = num_heads
        self.p = dropout
        self.q_proj = nn.Linear(d_model, d_model, **factory)
        self.k_proj = nn.Linear(d_model, d_model, **factory)
        self.v_proj = nn.Linear(d_model, d_model, **factory)
        self.o_proj = nn.Linear(d_model, d_model, **factory)

    def forward(self, x, source=None, padding=None):
        b, s, d = x.shape
        causal = source is None
        source = x if causal else source
        split = lambda t: t.view(b, t.shape[1], self.num_heads, -1).transpose(1, 2)
        q, k, v = split(self.q_proj(x)), split(self.k_proj(source)), split(self.v_proj(source))
        mask = None if padding is None else padding[:, None, None]
        p = self.p if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p, is_causal=causal)
        return self.o_proj(out.transpose(1, 2).reshape(b, s, d))


class MLP(nn.Module):
    def __init__(self, d_model, d_ff, dropout, **factory):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, **factory)
        self.fc2 = nn.Linear(d_ff, d_model, **factory)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return self.fc2(self.drop(F.gelu(self.fc1(x))))


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.self_attn = Attention(d_model, num_heads, dropout, **factory)
        self.cross_attn = Attention(d_model, num_heads, dropout, **factory)
        self.ffn = MLP(d_model, d_ff, dropout, **factory)
        self.self_attn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.cross_attn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.ffn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, memory, memory_padding=None):
        x = self.self_attn_norm(x + self.drop(self.self_attn(x)))
        x = self.cross_attn_norm(x + self.drop(self.cross_attn(x, memory, memory_padding)))
        return self.ffn_norm(x + self.drop(self.ffn(x)))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        factory = {"device": device, "dtype": dtype}
        self.self_attn = Attention(d_model, num_heads, dropout, **factory)
        self.ffn = MLP(d_model, d_ff, dropout, **factory)
        self.attn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.ffn_norm = nn.LayerNorm(d_model, eps=eps, **factory)
        self.drop1 = nn.Dropout(dropout)
        self.drop2 = nn.Dropout(dropout)

    def forward(self, x, padding=None):
        x = self.attn_norm(x + self.drop1(self.self_attn(x, x, padding)))
        return self.ffn_norm(x + self.drop2(self.ffn(x)))


class Embed(nn.Embedding):
    pass


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
        if d_model % 2:
            raise ValueError(f"d_model must be even, got {d_model}")
        factory = {"device": device, "dtype": dtype}
        self.d_model, self.max_len = d_model, max_len
        self.src_embedding = Embed(src_vocab, d_model, **factory)
        self.tgt_embedding = Embed(tgt_vocab, d_model, **factory)
        self.encoder_layers = nn.ModuleList(
            [EncoderLayer(d_model, num_heads, d_ff, dropout, **factory) for _ in range(num_layers)]
        )
        self.decoder_layers = nn.ModuleList(
            [DecoderLayer(d_model, num_heads, d_ff, dropout, **factory) for _ in range(num_layers)]
        )
        self.lm_head = nn.Linear(d_model, tgt_vocab, bias=False, **factory)
        self.drop = nn.Dropout(dropout)
        table = torch.zeros(max_len, d_model)
        position = torch.arange(max_len).unsqueeze(1)
        rate = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        table[:, 0::2] = torch.sin(position * rate)
        table[:, 1::2] = torch.cos(position * rate)
        self._table = [table]

    def place(self, x):
        if x.shape[1] > self.max_len:
            raise ValueError(f"sequence of {x.shape[1]} tokens is longer than max_len={self.max_len}")
        table = self._table[0] = self._table[0].to(x.device)
        return self.drop(x * math.sqrt(self.d_model) + table[: x.shape[1]].to(x.dtype))

    def forward(self, src_ids, tgt_ids, src_padding=None):
        memory = self.place(self.src_embedding(src_ids))
        for layer in self.encoder_layers:
            memory = layer(memory, src_padding)
        x = self.place(self.tgt_embedding(tgt_ids))
        for layer in self.decoder_layers:
            x = layer(x, memory, src_padding)
        return self.lm_head(x)
