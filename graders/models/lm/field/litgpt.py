# robust: Errors: heads that do not divide are assertions, which python -O skips.
"""litgpt: tables from `build_rope_cache` in buffers, parts built from a Config, PyTorch's fused attention."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Config:
    padded_vocab_size: int
    n_embd: int
    n_layer: int
    n_head: int
    intermediate_size: int
    block_size: int
    n_query_groups: int | None
    rope_base: float
    norm_eps: float

    def __post_init__(self):
        assert self.n_embd % self.n_head == 0
        self.head_size = self.n_embd // self.n_head
        if self.n_query_groups is not None:
            assert self.n_head % self.n_query_groups == 0
        else:
            self.n_query_groups = self.n_head


def build_rope_cache(seq_len, n_elem, device=None, base=10000.0):
    """Cosines and sines (seq_len, n_elem), each twice, for neighbouring pairs."""
    theta = 1.0 / (base ** (torch.arange(0, n_elem, 2, device=device).float() / n_elem))
    seq_idx = torch.arange(seq_len, device=device).float()
    idx_theta = torch.outer(seq_idx, theta).repeat_interleave(2, dim=-1)
    return torch.cos(idx_theta), torch.sin(idx_theta)


def apply_rope(x, cos, sin):
    rotated = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
    roped = (x * cos) + (rotated * sin)
    return roped.to(dtype=x.dtype)


class RMSNorm(nn.Module):
    def __init__(self, size, eps, **kw):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size, **kw))
        self.eps = eps

    def forward(self, x):
        dtype = x.dtype
        x = x.float()
        norm_x = torch.mean(x * x, dim=-1, keepdim=True)
        x_normed = x * torch.rsqrt(norm_x + self.eps)
        return (x_normed * self.weight.float()).to(dtype=dtype)


class CausalSelfAttention(nn.Module):
    def __init__(self, config, **kw):
        super().__init__()
        self.q_proj = nn.Linear(config.n_embd, config.n_head * config.head_size, bias=False, **kw)
        self.k_proj = nn.Linear(config.n_embd, config.n_query_groups * config.head_size, bias=False, **kw)
        self.v_proj = nn.Linear(config.n_embd, config.n_query_groups * config.head_size, bias=False, **kw)
        self.o_proj = nn.Linear(config.n_head * config.head_size, config.n_embd, bias=False, **kw)
        self.config = config

    def forward(self, x, cos, sin):
        bsz, seq, _ = x.size()
        config = self.config
        q = self.q_proj(x).view(bsz, seq, config.n_head, config.head_size).transpose(1, 2)
        k = self.k_proj(x).view(bsz, seq, config.n_query_groups, config.head_size).transpose(1, 2)
        v = self.v_proj(x).view(bsz, seq, config.n_query_groups, config.head_size).transpose(1, 2)
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        if config.n_query_groups != config.n_head:
            q_per_kv = config.n_head // config.n_query_groups
            k = k.repeat_interleave(q_per_kv, dim=1)
            v = v.repeat_interleave(q_per_kv, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(bsz, seq, config.head_size * config.n_head))


class LLaMAMLP(nn.Module):
    def __init__(self, config, **kw):
        super().__init__()
        self.w1 = nn.Linear(config.n_embd, config.intermediate_size, bias=False, **kw)
        self.w3 = nn.Linear(config.n_embd, config.intermediate_size, bias=False, **kw)
        self.w2 = nn.Linear(config.intermediate_size, config.n_embd, bias=False, **kw)

    def forward(self, x):
        x = F.silu(self.w1(x)) * self.w3(x)
        return self.w2(x)


class Block(nn.Module):
    def __init__(self, config, **kw):
        super().__init__()
        self.attn_norm = RMSNorm(config.n_embd, config.norm_eps, **kw)
        self.attn = CausalSelfAttention(config, **kw)
        self.ffn_norm = RMSNorm(config.n_embd, config.norm_eps, **kw)
        self.ffn = LLaMAMLP(config, **kw)

    def forward(self, x, cos, sin):
        x = self.attn(self.attn_norm(x), cos, sin) + x
        return self.ffn(self.ffn_norm(x)) + x


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
        config = Config(vocab_size, d_model, num_layers, num_heads, d_ff, max_seq_len, num_kv_heads, theta, eps)
        kw = {"device": device, "dtype": dtype}
        self.max_seq_length = max_seq_len
        self.token_embedding = nn.Embedding(config.padded_vocab_size, config.n_embd, **kw)
        self.layers = nn.ModuleList(Block(config, **kw) for _ in range(config.n_layer))
        self.final_norm = RMSNorm(config.n_embd, config.norm_eps, **kw)
        self.lm_head = nn.Linear(config.n_embd, config.padded_vocab_size, bias=False, **kw)
        cos, sin = build_rope_cache(max_seq_len, config.head_size, device, theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, idx):
        length = idx.size(1)
        if self.max_seq_length < length:
            raise ValueError(
                f"Cannot forward sequence of length {length}, max seq length is only {self.max_seq_length}."
            )
        x = self.token_embedding(idx)
        for block in self.layers:
            x = block(x, self.cos[:length], self.sin[:length])
        return self.lm_head(self.final_norm(x))
