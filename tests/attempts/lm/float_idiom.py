"""The usual Llama in one file: norm and softmax in float32, tables as attributes, keys repeated for their group."""

import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d, eps, **kw):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d, **kw))

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return h.to(x.dtype) * self.weight


class Attention(nn.Module):
    def __init__(self, d_model, heads, kv_heads, **kw):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, d_model // heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False, **kw)
        self.k_proj = nn.Linear(d_model, kv_heads * self.size, bias=False, **kw)
        self.v_proj = nn.Linear(d_model, kv_heads * self.size, bias=False, **kw)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, **kw)

    @staticmethod
    def rope(x, cos, sin):
        a, b = x.float()[..., 0::2], x.float()[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2).to(x.dtype)

    def forward(self, x, cos, sin):
        b, t, d = x.shape
        q = self.q_proj(x).view(b, t, self.heads, self.size).transpose(1, 2)
        k = self.k_proj(x).view(b, t, self.kv_heads, self.size).transpose(1, 2)
        v = self.v_proj(x).view(b, t, self.kv_heads, self.size).transpose(1, 2)
        q, k = self.rope(q, cos, sin), self.rope(k, cos, sin)
        k = k.repeat_interleave(self.heads // self.kv_heads, 1)
        v = v.repeat_interleave(self.heads // self.kv_heads, 1)
        scores = (q @ k.transpose(-2, -1)).float() / math.sqrt(self.size)
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        p = scores.masked_fill(future, float("-inf")).softmax(-1).to(x.dtype)
        return self.o_proj((p @ v).transpose(1, 2).reshape(b, t, d))


class FFN(nn.Module):
    def __init__(self, d_model, d_ff, **kw):
        super().__init__()
        self.w1 = nn.Linear(d_model, d_ff, bias=False, **kw)
        self.w2 = nn.Linear(d_ff, d_model, bias=False, **kw)
        self.w3 = nn.Linear(d_model, d_ff, bias=False, **kw)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, d_model, heads, kv_heads, d_ff, eps, **kw):
        super().__init__()
        self.attn_norm = RMSNorm(d_model, eps, **kw)
        self.attn = Attention(d_model, heads, kv_heads, **kw)
        self.ffn_norm = RMSNorm(d_model, eps, **kw)
        self.ffn = FFN(d_model, d_ff, **kw)

    def forward(self, x, cos, sin):
        x = x + self.attn(self.attn_norm(x), cos, sin)
        return x + self.ffn(self.ffn_norm(x))


class TransformerLM(nn.Module):
    def __init__(
        self,
        vocab_size,
        d_model,
        num_layers,
        num_heads,
        d_ff,
        max_seq_len,
        num_kv_heads=None,
        theta=10000.0,
        eps=1e-5,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__()
        kw = {"device": device, "dtype": dtype}
        kv_heads = num_kv_heads or num_heads
        self.max_seq_len = max_seq_len
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kw)
        self.layers = nn.ModuleList([Layer(d_model, num_heads, kv_heads, d_ff, eps, **kw) for _ in range(num_layers)])
        self.final_norm = RMSNorm(d_model, eps, **kw)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **kw)
        size = d_model // num_heads
        inv = theta ** (-torch.arange(0, size, 2).float() / size)
        angle = torch.arange(max_seq_len).float().outer(inv)
        self.tables = angle.cos(), angle.sin()

    def forward(self, token_ids):
        t = token_ids.size(1)
        if t > self.max_seq_len:
            raise ValueError(f"sequence of {t} tokens exceeds max_seq_len={self.max_seq_len}")
        cos, sin = (table[:t].to(token_ids.device) for table in self.tables)
        x = self.token_embedding(token_ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.final_norm(x))
