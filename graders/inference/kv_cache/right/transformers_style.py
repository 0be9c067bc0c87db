"""As transformers' eager Llama with a static cache: halves turned, keys repeated by expanding, a mask that is added."""

import torch
from torch import nn


class KVCache:
    def __init__(self, batch, num_kv_heads, max_len, head_dim, *, device=None, dtype=None):
        self.max_cache_len = max_len
        self.key_cache = torch.zeros((batch, num_kv_heads, max_len, head_dim), dtype=dtype, device=device)
        self.value_cache = torch.zeros_like(self.key_cache)
        self._seen_tokens = 0

    @property
    def length(self):
        return self._seen_tokens

    def append(self, k, v):
        expected = (*self.key_cache.shape[:2], k.shape[-2], self.key_cache.shape[-1])
        if tuple(k.shape) != expected:
            raise ValueError(f"k has shape {tuple(k.shape)}, expected {expected}")
        if v.shape != k.shape:
            raise ValueError(f"v has shape {tuple(v.shape)}, expected {expected}")
        end = self._seen_tokens + k.shape[-2]
        if end > self.max_cache_len:
            raise ValueError(f"{end} tokens exceed the cache of {self.max_cache_len}")
        with torch.no_grad():
            self.key_cache.narrow(-2, self._seen_tokens, k.shape[-2]).copy_(k)
            self.value_cache.narrow(-2, self._seen_tokens, v.shape[-2]).copy_(v)
        self._seen_tokens = end
        return self.key_cache.narrow(-2, 0, end), self.value_cache.narrow(-2, 0, end)

    def truncate(self, length):
        if length not in range(self._seen_tokens + 1):
            raise ValueError(f"{length} is not between 0 and {self._seen_tokens}")
        self._seen_tokens = int(length)


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def repeat_kv(hidden_states, n_rep):
    batch, num_key_value_heads, slen, head_dim = hidden_states.shape
    hidden_states = hidden_states[:, :, None, :, :].expand(batch, num_key_value_heads, n_rep, slen, head_dim)
    return hidden_states.reshape(batch, num_key_value_heads * n_rep, slen, head_dim)


class CachedAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        if num_kv_heads is None:
            num_kv_heads = num_heads
        self.head_dim = d_model // num_heads
        if self.head_dim * num_heads != d_model:
            raise ValueError(f"d_model ({d_model}) must be divisible by num_heads ({num_heads})")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads ({num_heads}) must be divisible by num_kv_heads ({num_kv_heads})")
        if self.head_dim % 2:
            raise ValueError(f"head_dim ({self.head_dim}) must be even")
        self.num_key_value_groups, self.max_position_embeddings = num_heads // num_kv_heads, max_seq_len
        self.inv_freq = tuple(theta ** (-i / self.head_dim) for i in range(0, self.head_dim, 2))
        kw = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj, self.o_proj = nn.Linear(d_model, d_model, **kw), nn.Linear(d_model, d_model, **kw)
        self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, **kw)
        self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, **kw)

    def forward(self, hidden_states, cache=None):
        bsz, q_len, _ = hidden_states.size()
        past = 0 if cache is None else cache.length
        if past + q_len > self.max_position_embeddings:
            raise ValueError(f"{past + q_len} positions, but max_seq_len is {self.max_position_embeddings}")
        cache_position = torch.arange(past, past + q_len, device=hidden_states.device)
        inv_freq = torch.tensor(self.inv_freq, dtype=torch.float64, device=hidden_states.device)
        angles = cache_position[:, None].double() * inv_freq.repeat(2)
        wide = torch.promote_types(hidden_states.dtype, torch.float32)
        cos, sin = angles.cos().to(wide), angles.sin().to(wide)

        def heads(proj, permuted):
            states = proj(hidden_states).view(bsz, q_len, -1, self.head_dim).transpose(1, 2)
            if not permuted:
                return states
            states = torch.cat((states[..., 0::2], states[..., 1::2]), dim=-1).to(wide)
            return (states * cos + rotate_half(states) * sin).to(hidden_states.dtype)

        query, key, value = heads(self.q_proj, True), heads(self.k_proj, True), heads(self.v_proj, False)
        if cache is not None:
            key, value = cache.append(key, value)
        key, value = repeat_kv(key, self.num_key_value_groups), repeat_kv(value, self.num_key_value_groups)
        places = torch.arange(key.shape[-2], device=key.device)
        causal_mask = (places > cache_position[:, None]).to(wide) * torch.finfo(wide).min
        attn_weights = torch.matmul(query.to(wide), key.to(wide).transpose(2, 3)) * self.head_dim**-0.5
        attn_weights = nn.functional.softmax(attn_weights + causal_mask, dim=-1).to(query.dtype)
        attn_output = torch.matmul(attn_weights, value).transpose(1, 2).contiguous()
        return self.o_proj(attn_output.reshape(bsz, q_len, -1))
