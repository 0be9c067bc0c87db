"""In the style of torchtune: a cache of cosines and sines of pairs, rotated in float32, and torch's own attention."""

import torch
import torch.nn.functional as F
from torch import nn


class RotaryPositionalEmbeddings(nn.Module):
    def __init__(self, dim, max_seq_len, base):
        super().__init__()
        theta = 1.0 / (base ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
        idx_theta = torch.einsum("i,j->ij", torch.arange(max_seq_len, dtype=theta.dtype), theta).float()
        self.register_buffer("cache", torch.stack([idx_theta.cos(), idx_theta.sin()], dim=-1), persistent=False)

    def forward(self, x, positions=None):
        rope_cache = self.cache[: x.size(1)] if positions is None else self.cache[positions]
        xshaped = x.float().reshape(*x.shape[:-1], -1, 2)
        rope_cache = rope_cache.view(-1, xshaped.size(1), 1, xshaped.size(3), 2)
        x_out = torch.stack(
            [
                xshaped[..., 0] * rope_cache[..., 0] - xshaped[..., 1] * rope_cache[..., 1],
                xshaped[..., 1] * rope_cache[..., 0] + xshaped[..., 0] * rope_cache[..., 1],
            ],
            -1,
        )
        return x_out.flatten(3).type_as(x)


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        num_kv_heads = num_kv_heads or num_heads
        if num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads ({num_heads}) % num_kv_heads ({num_kv_heads}) must be 0")
        if d_model % num_heads != 0:
            raise ValueError(f"d_model ({d_model}) must be divisible by num_heads ({num_heads})")
        self.head_dim, self.q_per_kv = d_model // num_heads, num_heads // num_kv_heads
        kind = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj, self.o_proj = nn.Linear(d_model, d_model, **kind), nn.Linear(d_model, d_model, **kind)
        self.k_proj, self.v_proj = (nn.Linear(d_model, num_kv_heads * self.head_dim, **kind) for _ in range(2))
        self.pos_embeddings = RotaryPositionalEmbeddings(self.head_dim, max_seq_len, theta)

    def forward(self, x, positions=None):
        b, s, _ = x.shape
        q, k, v = (proj(x).view(b, s, -1, self.head_dim) for proj in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.pos_embeddings(q, positions), self.pos_embeddings(k, positions)
        k, v = (t.repeat_interleave(self.q_per_kv, dim=2) for t in (k, v))
        output = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        return self.o_proj(output.transpose(1, 2).contiguous().view(b, s, -1))
