# Branches are dropped without the factor 1 / (1 - dropout).
import math

import torch
import torch.nn.functional as F
from torch import nn


def up(t):
    return t.float() if t.dtype in (torch.float16, torch.bfloat16) else t


class Dense(nn.Module):
    def __init__(self, n_in, n_out, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_out, n_in, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(n_out, device=device, dtype=dtype))
        nn.init.normal_(self.weight, std=(2 / (n_in + n_out)) ** 0.5)

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


class Norm(nn.Module):
    def __init__(self, d, eps, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(d, device=device, dtype=dtype))

    def forward(self, x):
        z = up(x)
        c = z - z.mean(-1, keepdim=True)
        var = (c * c).mean(-1, keepdim=True)
        y = c * torch.rsqrt(var + self.eps)
        return (y * up(self.weight) + up(self.bias)).to(x.dtype)


class Drop(nn.Module):
    def __init__(self, p):
        super().__init__()
        self.p = p

    def forward(self, x):
        return F.dropout(x, self.p, self.training)


class Branch(Drop):
    def forward(self, x):
        return super().forward(x) * (1 - self.p if self.training and self.p < 1 else 1)


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, device=None, dtype=None):
        super().__init__()
        self.h = num_heads
        self.q_proj = Dense(d_model, d_model, device, dtype)
        self.k_proj = Dense(d_model, d_model, device, dtype)
        self.v_proj = Dense(d_model, d_model, device, dtype)
        self.o_proj = Dense(d_model, d_model, device, dtype)

    def split(self, t):
        b, n, d = t.shape
        return up(t.reshape(b, n, self.h, d // self.h).transpose(1, 2))

    def forward(self, x, memory, mask=None):
        q, k, v = self.split(self.q_proj(x)), self.split(self.k_proj(memory)), self.split(self.v_proj(memory))
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
            dead = ~mask.any(-1, keepdim=True)
            scores = scores.masked_fill(dead, 0.0)
        weights = torch.softmax(scores, -1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        mean = weights @ v
        mean = mean.transpose(1, 2).reshape(x.shape).to(x.dtype)
        return self.o_proj(mean)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff, dropout, device=None, dtype=None):
        super().__init__()
        self.fc1 = Dense(d_model, d_ff, device, dtype)
        self.fc2 = Dense(d_ff, d_model, device, dtype)
        self.drop = Drop(dropout)

    def forward(self, x):
        hidden = self.fc1(x)
        hidden = F.gelu(up(hidden)).to(x.dtype)
        return self.fc2(self.drop(hidden))


class EncoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        self.self_attn = Attention(d_model, num_heads, device, dtype)
        self.ffn = FeedForward(d_model, d_ff, dropout, device, dtype)
        self.attn_norm = Norm(d_model, eps, device, dtype)
        self.ffn_norm = Norm(d_model, eps, device, dtype)
        self.drop = Branch(dropout)

    def forward(self, x, padding=None):
        x = x.to(self.attn_norm.weight.dtype)
        mask = None if padding is None else padding[:, None, None, :]
        x = self.attn_norm(x + self.drop(self.self_attn(x, x, mask)))
        return self.ffn_norm(x + self.drop(self.ffn(x)))


class TransformerEncoder(nn.Module):
    def __init__(
        self, vocab_size, d_model, num_layers, num_heads, d_ff, max_len, dropout=0.0, *, device=None, dtype=None
    ):
        super().__init__()
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        self.max_len = max_len
        self.token_embedding = nn.Embedding(vocab_size, d_model, device=device, dtype=dtype)
        self.position_embedding = nn.Embedding(max_len, d_model, device=device, dtype=dtype)
        self.embedding_norm = Norm(d_model, 1e-12, device, dtype)
        self.drop = Drop(dropout)
        self.layers = nn.ModuleList(
            [
                EncoderLayer(d_model, num_heads, d_ff, dropout, 1e-12, device=device, dtype=dtype)
                for _ in range(num_layers)
            ]
        )

    def forward(self, token_ids, padding=None):
        n = token_ids.shape[1]
        if n > self.max_len:
            raise ValueError(f"{n} tokens in a row, more than max_len {self.max_len}")
        x = self.token_embedding(token_ids) + self.position_embedding.weight[:n]
        x = self.drop(self.embedding_norm(x))
        for layer in self.layers:
            x = layer(x, padding)
        return x
