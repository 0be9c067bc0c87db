"""As transformers' Llama with a StaticCache: `index_copy_`, repeat_kv, and an additive mask in eager attention."""

import torch
from torch import nn


class KVCache:
    def __init__(self, batch, num_kv_heads, max_len, head_dim, *, device=None, dtype=None):
        self.max_cache_len, self.length = max_len, 0
        self.keys = torch.zeros(batch, num_kv_heads, max_len, head_dim, device=device, dtype=dtype)
        self.values = torch.zeros_like(self.keys)

    @torch.no_grad()
    def append(self, key_states, value_states):
        cache_position = torch.arange(key_states.shape[-2], device=key_states.device) + self.length
        total = self.length + len(cache_position)
        if total > self.max_cache_len:
            raise ValueError(f"The cache holds {self.max_cache_len} tokens, but {total} are needed.")
        self.keys.index_copy_(2, cache_position, key_states)
        self.values.index_copy_(2, cache_position, value_states)
        self.length = total
        return self.keys[..., :total, :], self.values[..., :total, :]

    def truncate(self, max_length):
        self.length = max_length


def rotate_every_two(x):
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


def repeat_kv(hidden_states, n_rep):
    return hidden_states[:, :, None].expand(-1, -1, n_rep, -1, -1).flatten(1, 2)


class CachedAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        self.max_position_embeddings = max_seq_len
        self.head_dim, num_kv_heads = d_model // num_heads, num_kv_heads or num_heads
        self.num_key_value_groups, kind = num_heads // num_kv_heads, {"bias": False, "device": device, "dtype": dtype}
        self.q_proj, self.o_proj = (nn.Linear(d_model, d_model, **kind) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(d_model, num_kv_heads * self.head_dim, **kind) for _ in range(2))
        inv_freq = 1.0 / (theta ** (torch.arange(0, self.head_dim, 2, device=device).float() / self.head_dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, x, cache=None):
        shape = (*x.shape[:-1], -1, self.head_dim)
        query, key, value = (p(x).view(shape).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        past = cache.length if cache is not None else 0
        total = past + x.shape[1]
        if total > self.max_position_embeddings:
            raise ValueError(f"{total} tokens exceed max_position_embeddings={self.max_position_embeddings}.")
        freqs = torch.arange(past, total, device=x.device).float()[:, None] * self.inv_freq.float()
        cos, sin = (t.repeat_interleave(2, dim=-1).to(query.dtype) for t in (freqs.cos(), freqs.sin()))
        query, key = (t * cos + rotate_every_two(t) * sin for t in (query, key))
        if cache is not None:
            key, value = cache.append(key, value)
        key, value = repeat_kv(key, self.num_key_value_groups), repeat_kv(value, self.num_key_value_groups)
        mask = torch.full((total - past, total), torch.finfo(query.dtype).min, dtype=query.dtype, device=query.device)
        weights = torch.matmul(query, key.transpose(2, 3)) * self.head_dim**-0.5 + mask.triu(past + 1)
        weights = nn.functional.softmax(weights, dim=-1, dtype=torch.float32).to(query.dtype)
        return self.o_proj(torch.matmul(weights, value).transpose(1, 2).reshape(x.shape))
