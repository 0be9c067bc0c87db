"""As gpt-fast: the cache is a module of two buffers, attention runs over its whole room, angles are in float32."""

import torch
from torch import nn


class KVCache(nn.Module):
    def __init__(self, batch, num_kv_heads, max_len, head_dim, *, device=None, dtype=None):
        super().__init__()
        shape = (batch, num_kv_heads, max_len, head_dim)
        self.register_buffer("k_cache", torch.zeros(shape, device=device, dtype=dtype), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape, device=device, dtype=dtype), persistent=False)
        self.length = 0

    @torch.no_grad()
    def append(self, k, v):
        b, h, room, d = self.k_cache.shape
        for name, t in (("k", k), ("v", v)):
            if (t.size(0), t.size(1), t.size(3)) != (b, h, d):
                raise ValueError(f"{name} has shape {list(t.shape)}, the cache {[b, h, room, d]}")
        if k.size(2) != v.size(2):
            raise ValueError(f"{k.size(2)} keys for {v.size(2)} values")
        pos = torch.arange(self.length, self.length + k.size(2), device=self.k_cache.device)
        if self.length + k.size(2) > room:
            raise ValueError(f"cache of {room} tokens is full: {self.length} + {k.size(2)}")
        self.k_cache[:, :, pos] = k
        self.v_cache[:, :, pos] = v
        self.length += k.size(2)
        return self.k_cache[:, :, : self.length], self.v_cache[:, :, : self.length]

    def truncate(self, length):
        if length < 0 or length > self.length:
            raise ValueError(f"cannot truncate {self.length} tokens to {length}")
        self.length = length


def apply_rotary_emb(x, freqs_cis):
    xshaped = x.float().reshape(*x.shape[:-1], -1, 2) if x.dtype != torch.float64 else x.reshape(*x.shape[:-1], -1, 2)
    freqs_cis = freqs_cis.view(1, xshaped.size(1), 1, xshaped.size(3), 2).to(xshaped.dtype)
    re = xshaped[..., 0] * freqs_cis[..., 0] - xshaped[..., 1] * freqs_cis[..., 1]
    im = xshaped[..., 1] * freqs_cis[..., 0] + xshaped[..., 0] * freqs_cis[..., 1]
    return torch.stack([re, im], -1).flatten(3).type_as(x)


class CachedAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        self.n_head, self.n_local_heads = num_heads, num_heads if num_kv_heads is None else num_kv_heads
        if d_model % num_heads or num_heads % self.n_local_heads or (d_model // num_heads) % 2:
            raise ValueError(
                f"{d_model=} {num_heads=} num_kv_heads={self.n_local_heads} head_dim={d_model // num_heads}"
            )
        self.head_dim, self.block_size = d_model // num_heads, max_seq_len
        kv = self.n_local_heads * self.head_dim
        for name, width in (("q_proj", d_model), ("k_proj", kv), ("v_proj", kv), ("o_proj", d_model)):
            setattr(self, name, nn.Linear(d_model, width, bias=False, device=device, dtype=dtype))
        freqs = 1.0 / (theta ** (torch.arange(0, self.head_dim, 2).float() / self.head_dim))
        freqs = torch.outer(torch.arange(max_seq_len).float(), freqs)
        self.freqs_cis = [torch.stack([freqs.cos(), freqs.sin()], -1)]  # in a list, which no cast of the module finds

    def forward(self, x, cache=None):
        bsz, seqlen, dim = x.shape
        begin = cache.length if cache is not None else 0
        if begin + seqlen > self.block_size:
            raise ValueError(f"positions {begin} to {begin + seqlen - 1}, the block has {self.block_size}")
        input_pos = torch.arange(begin, begin + seqlen, device=x.device)
        q = self.q_proj(x).view(bsz, seqlen, self.n_head, self.head_dim)
        k = self.k_proj(x).view(bsz, seqlen, self.n_local_heads, self.head_dim)
        v = self.v_proj(x).view(bsz, seqlen, self.n_local_heads, self.head_dim)
        freqs_cis = self.freqs_cis[0].to(x.device)[input_pos]
        q, k = apply_rotary_emb(q, freqs_cis), apply_rotary_emb(k, freqs_cis)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        if cache is not None:
            cache.append(k, v)
            k, v = cache.k_cache, cache.v_cache
        k = k.repeat_interleave(self.n_head // self.n_local_heads, dim=1)
        v = v.repeat_interleave(self.n_head // self.n_local_heads, dim=1)
        mask = torch.arange(k.size(2), device=x.device)[None, :] <= input_pos[:, None]
        acc = torch.float64 if x.dtype == torch.float64 else torch.float32
        att = (q * self.head_dim**-0.5).to(acc) @ k.transpose(-2, -1).to(acc)
        att = torch.softmax(att.masked_fill(~mask, float("-inf")), dim=-1)
        y = att.to(v.dtype) @ v
        return self.o_proj(y.transpose(1, 2).contiguous().view(bsz, seqlen, dim))
