"""Object style: RoPE by complex numbers, the library's norm and fused attention, groups by enable_gqa."""

import torch
import torch.nn.functional as F
from torch import nn


class Rotary:
    def __init__(self, size, length, theta):
        angle = torch.arange(length).double().outer(theta ** (-torch.arange(0, size, 2).double() / size))
        self.turns = torch.polar(torch.ones_like(angle), angle).to(torch.complex64)

    def __call__(self, x):
        turns = self.turns[: x.shape[-2]].to(x.device)
        z = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)).contiguous())
        return torch.view_as_real(z * turns).flatten(-2).to(x.dtype)


class Attn(nn.Module):
    def __init__(self, config, rotary, kw):
        super().__init__()
        d, h, g = config["d_model"], config["num_heads"], config["num_kv_heads"]
        self.h, self.g, self.rotary = h, g, rotary
        self.q_proj = nn.Linear(d, d, bias=False, **kw)
        self.k_proj = nn.Linear(d, d // h * g, bias=False, **kw)
        self.v_proj = nn.Linear(d, d // h * g, bias=False, **kw)
        self.o_proj = nn.Linear(d, d, bias=False, **kw)

    def forward(self, x):
        q = self.rotary(self.q_proj(x).unflatten(-1, (self.h, -1)).transpose(1, 2))
        k = self.rotary(self.k_proj(x).unflatten(-1, (self.g, -1)).transpose(1, 2))
        v = self.v_proj(x).unflatten(-1, (self.g, -1)).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.h != self.g)
        return self.o_proj(y.transpose(1, 2).flatten(2))


class Gated(nn.Module):
    def __init__(self, d, hidden, kw):
        super().__init__()
        self.w1 = nn.Linear(d, hidden, bias=False, **kw)
        self.w3 = nn.Linear(d, hidden, bias=False, **kw)
        self.w2 = nn.Linear(hidden, d, bias=False, **kw)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Layer(nn.Module):
    def __init__(self, config, rotary, kw):
        super().__init__()
        self.attn_norm = nn.RMSNorm(config["d_model"], eps=config["eps"], **kw)
        self.attn = Attn(config, rotary, kw)
        self.ffn_norm = nn.RMSNorm(config["d_model"], eps=config["eps"], **kw)
        self.ffn = Gated(config["d_model"], config["d_ff"], kw)

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
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
        device=None,
        dtype=None,
    ):
        super().__init__()
        config = dict(d_model=d_model, num_heads=num_heads, d_ff=d_ff, eps=eps, num_kv_heads=num_kv_heads or num_heads)
        kw = dict(device=device, dtype=dtype)
        self.limit = max_seq_len
        rotary = Rotary(d_model // num_heads, max_seq_len, theta)
        self.token_embedding = nn.Embedding(vocab_size, d_model, **kw)
        self.layers = nn.ModuleList(Layer(config, rotary, kw) for _ in range(num_layers))
        self.final_norm = nn.RMSNorm(d_model, eps=eps, **kw)
        self.lm_head = nn.Linear(d_model, vocab_size, bias=False, **kw)

    def forward(self, token_ids):
        if token_ids.shape[1] > self.limit:
            raise ValueError(f"at most {self.limit} tokens, got {token_ids.shape[1]}")
        x = self.token_embedding(token_ids)
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.final_norm(x))
