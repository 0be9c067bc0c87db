"""As gpt-fast: the cache is a module of two buffers, and attention runs over all of it and masks by position."""

import torch
from torch import nn


class KVCache(nn.Module):
    def __init__(self, batch, num_kv_heads, max_len, head_dim, *, device=None, dtype=None):
        super().__init__()
        shape = (batch, num_kv_heads, max_len, head_dim)
        self.register_buffer("k_cache", torch.zeros(shape, device=device, dtype=dtype))
        self.register_buffer("v_cache", torch.zeros(shape, device=device, dtype=dtype))
        self.length = 0

    @torch.no_grad()
    def append(self, k, v):
        if self.length + k.size(2) > self.k_cache.size(2):
            raise ValueError(f"{self.length} + {k.size(2)} tokens exceed the cache of {self.k_cache.size(2)}")
        input_pos = torch.arange(self.length, self.length + k.size(2), device=k.device)
        self.k_cache[:, :, input_pos], self.v_cache[:, :, input_pos] = k, v
        self.length += k.size(2)
        return self.k_cache[:, :, : self.length], self.v_cache[:, :, : self.length]

    def truncate(self, length):
        self.length = length


def apply_rotary_emb(x, freqs_cis):
    pairs = torch.view_as_complex(x.to(freqs_cis.real.dtype).reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * freqs_cis).flatten(3).type_as(x)


class CachedAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        self.n_head, self.n_local_heads, self.head_dim = num_heads, num_kv_heads or num_heads, d_model // num_heads
        kv = self.n_local_heads * self.head_dim
        for name, width in (("q_proj", d_model), ("k_proj", kv), ("v_proj", kv), ("o_proj", d_model)):
            setattr(self, name, nn.Linear(d_model, width, bias=False, device=device, dtype=dtype))
        freqs = 1.0 / (theta ** (torch.arange(0, self.head_dim, 2, device=device).float() / self.head_dim))
        angles = torch.outer(torch.arange(max_seq_len, device=device).float(), freqs)
        self.freqs_cis = torch.polar(torch.ones_like(angles), angles)

    def forward(self, x, cache=None):
        bsz, seqlen, dim = x.shape
        begin = cache.length if cache is not None else 0
        if begin + seqlen > len(self.freqs_cis):
            raise ValueError(f"{begin} + {seqlen} positions exceed max_seq_len {len(self.freqs_cis)}")
        input_pos = torch.arange(begin, begin + seqlen, device=x.device)
        freqs_cis = self.freqs_cis.to(x.device)[input_pos].to(torch.promote_types(x.dtype, torch.float32).to_complex())
        q, k, v = (
            p(x).view(bsz, seqlen, -1, self.head_dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = apply_rotary_emb(q, freqs_cis), apply_rotary_emb(k, freqs_cis)
        if cache is not None:
            cache.append(k, v)
            k, v = cache.k_cache, cache.v_cache
        k, v = (t.repeat_interleave(self.n_head // self.n_local_heads, dim=1) for t in (k, v))
        mask = torch.arange(k.size(2), device=x.device) <= input_pos[:, None]
        att = (q @ k.transpose(-2, -1) * self.head_dim**-0.5).masked_fill(~mask, float("-inf"))
        return self.o_proj((att.softmax(-1) @ v).transpose(1, 2).reshape(bsz, seqlen, dim))
