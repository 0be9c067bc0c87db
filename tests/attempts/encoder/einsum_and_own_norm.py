import math

import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self, size, eps, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(size, device=device, dtype=dtype))
        self.eps = eps

    def forward(self, x):
        wide = x.float()
        var, mean = torch.var_mean(wide, dim=-1, correction=0, keepdim=True)
        return ((wide - mean) * torch.rsqrt(var + self.eps)).to(x.dtype) * self.weight + self.bias


class Attention(nn.Module):
    def __init__(self, d_model, heads, p, device=None, dtype=None):
        super().__init__()
        self.h, self.drop = heads, nn.Dropout(p)
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, nn.Linear(d_model, d_model, device=device, dtype=dtype))

    def forward(self, x, padding):
        q = self.q_proj(x).unflatten(-1, (self.h, -1)).float()
        k = self.k_proj(x).unflatten(-1, (self.h, -1)).float()
        v = self.v_proj(x).unflatten(-1, (self.h, -1)).float()
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        weights = scores.softmax(-1) if padding is None else self.masked_softmax(scores, padding[:, None, None])
        return self.o_proj(torch.einsum("bhqk,bkhd->bqhd", self.drop(weights), v).flatten(-2).to(x.dtype))

    @staticmethod
    def masked_softmax(scores, seen):
        alive = seen.any(-1, keepdim=True)
        return scores.masked_fill(~seen & alive, -torch.inf).softmax(-1) * alive


class FFN(nn.Module):
    def __init__(self, d_model, d_ff, p, device=None, dtype=None):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)
        self.fc2 = nn.Linear(d_ff, d_model, device=device, dtype=dtype)
        self.layers = (nn.GELU(), nn.Dropout(p))

    def forward(self, x):
        gelu, drop = self.layers
        drop.train(self.training)
        return self.fc2(drop(gelu(self.fc1(x))))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        if d_model % num_heads != 0:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        super().__init__()
        self.self_attn = Attention(d_model, num_heads, dropout, device, dtype)
        self.ffn = FFN(d_model, d_ff, dropout, device, dtype)
        self.attn_norm = Norm(d_model, eps, device, dtype)
        self.ffn_norm = Norm(d_model, eps, device, dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, padding=None):
        h = self.attn_norm(x + self.dropout(self.self_attn(x, padding)))
        return self.ffn_norm(h + self.dropout(self.ffn(h)))


class Table(nn.Module):
    def __init__(self, rows, size, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(rows, size, device=device, dtype=dtype))

    def forward(self, ids):
        return self.weight[ids.long()]


class TransformerEncoder(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *, device=None, dtype=None
    ):
        super().__init__()
        self.max_len = max_len
        self.token_embedding = Table(vocab_size, d_model, device, dtype)
        self.position_embedding = Table(max_len, d_model, device, dtype)
        self.embedding_norm = Norm(d_model, 1e-12, device, dtype)
        self.dropout = nn.Dropout(dropout)
        self.layers = nn.Sequential(
            *(EncoderLayer(d_model, num_heads, d_ff, dropout, device=device, dtype=dtype) for _ in range(num_layers))
        )

    def forward(self, token_ids, padding=None):
        _, seq = token_ids.shape
        if seq > self.max_len:
            raise ValueError(f"{seq} tokens but only {self.max_len} positions")
        x = self.token_embedding(token_ids) + self.position_embedding(torch.arange(seq, device=token_ids.device))
        x = self.dropout(self.embedding_norm(x))
        for layer in self.layers:
            x = layer(x, padding)
        return x
