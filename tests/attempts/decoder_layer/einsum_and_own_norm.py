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

    def forward(self, x, source, allowed):
        q, k, v = self.q_proj(x), self.k_proj(source), self.v_proj(source)
        q, k, v = (t.unflatten(-1, (self.h, -1)).float() for t in (q, k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
        if allowed is not None:
            alive = allowed.any(-1, keepdim=True)
            scores = scores.masked_fill(~allowed & alive, -torch.inf)
            weights = scores.softmax(-1) * alive
        else:
            weights = scores.softmax(-1)
        return self.o_proj(torch.einsum("bhqk,bkhd->bqhd", self.drop(weights), v).flatten(-2).to(x.dtype))


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


class DecoderLayer(nn.Module):
    def __init__(self, d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None):
        if d_model % num_heads != 0:
            raise ValueError(f"d_model={d_model} is not divisible by num_heads={num_heads}")
        super().__init__()
        self.self_attn = Attention(d_model, num_heads, dropout, device, dtype)
        self.cross_attn = Attention(d_model, num_heads, dropout, device, dtype)
        self.ffn = FFN(d_model, d_ff, dropout, device, dtype)
        self.self_attn_norm = Norm(d_model, eps, device, dtype)
        self.cross_attn_norm = Norm(d_model, eps, device, dtype)
        self.ffn_norm = Norm(d_model, eps, device, dtype)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, memory, memory_padding=None):
        index = torch.arange(x.shape[1], device=x.device)
        past = index[None, :] <= index[:, None]
        h = self.self_attn_norm(x + self.dropout(self.self_attn(x, x, past[None, None])))
        real = None if memory_padding is None else memory_padding[:, None, None, :]
        h = self.cross_attn_norm(h + self.dropout(self.cross_attn(h, memory, real)))
        return self.ffn_norm(h + self.dropout(self.ffn(h)))
