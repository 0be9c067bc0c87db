# Positions of the tables are counted in bfloat16 when dtype is bfloat16 (wrong beyond 256).
import math

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps, *, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(self, x):
        y = x if x.dtype == torch.float64 else x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return (y * self.weight.to(y.dtype)).to(self.weight.dtype)


class Attention(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, *, device=None, dtype=None):
        super().__init__()
        self.num_heads, self.num_kv_heads, self.head_dim = num_heads, num_kv_heads, d_model // num_heads
        kw = dict(bias=False, device=device, dtype=dtype)
        self.q_proj = nn.Linear(d_model, d_model, **kw)
        self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, **kw)
        self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, **kw)
        self.o_proj = nn.Linear(d_model, d_model, **kw)

    def rotate(self, t, cos, sin):
        a, b = t[..., 0::2], t[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def forward(self, x, cos, sin):
        batch, seq, d_model = x.shape
        heads = lambda t: t.to(cos.dtype).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
        q, k, v = heads(self.q_proj(x)), heads(self.k_proj(x)), heads(self.v_proj(x))
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        group = self.num_heads // self.num_kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = q @ k.mT / math.sqrt(self.head_dim)
        index = torch.arange(seq, device=x.device)
        scores = scores.masked_fill(index > index[:, None], -torch.inf)
        y = scores.softmax(-1) @ v
        return self.o_proj(y.transpose(1, 2).flatten(2).to(x.dtype))


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff, *, device=None, dtype=None):
        super().__init__()
        kw = dict(bias=False, device=device, dtype=dtype)
        self.w1 = nn.Linear(d_model, d_ff, **kw)
        self.w2 = nn.Linear(d_ff, d_model, **kw)
        self.w3 = nn.Linear(d_model, d_ff, **kw)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, d_model, num_heads, num_kv_heads, d_ff, eps, **kw):
        super().__init__()
        self.attn_norm = RMSNorm(d_model, eps, **kw)
        self.attn = Attention(d_model, num_heads, num_kv_heads, **kw)
        self.ffn_norm = RMSNorm(d_model, eps, **kw)
        self.ffn = SwiGLU(d_model, d_ff, **kw)

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
        if num_kv_heads is None:
            num_kv_heads = num_heads
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        head_dim = d_model // num_heads
        if head_dim % 2:
            raise ValueError(f"head_dim {head_dim} is odd")
        kw = dict(device=device, dtype=dtype)
        self.max_seq_len = max_seq_len
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kw)
        self.layers = nn.ModuleList(Layer(d_model, num_heads, num_kv_heads, d_ff, eps, **kw) for _ in range(num_layers))
        self.final_norm = RMSNorm(d_model, eps, **kw)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **kw)
        freq = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        angles = torch.arange(max_seq_len).to(dtype or torch.float32).double()[:, None] * freq
        self.keep_tables(angles, device)

    def keep_tables(self, angles, device):
        self._tables = (angles.cos(), angles.sin())

    def tables(self, seq, x):
        work = torch.float64 if x.dtype == torch.float64 else torch.float32
        return [t[:seq].to(x.device, work) for t in self._tables]

    def forward(self, token_ids):
        seq = token_ids.shape[1]
        if seq > self.max_seq_len:
            raise ValueError(f"{seq} tokens, but max_seq_len is {self.max_seq_len}")
        x = self.token_embedding(token_ids)
        cos, sin = self.tables(seq, x)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.lm_head(self.final_norm(x))
