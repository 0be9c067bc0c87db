"""The cache holds keys as they come out of the projection; all are turned in each call, by complex numbers."""

import torch
from torch import nn


class KVCache:
    def __init__(self, batch, num_kv_heads, max_len, head_dim, *, device=None, dtype=None):
        self.room = torch.empty(2, max_len, batch, num_kv_heads, head_dim, device=device, dtype=dtype)
        self.length = 0

    def append(self, k, v):
        _, room, *sizes = self.room.shape
        for t in (k, v):
            if [t.shape[0], t.shape[1], t.shape[3]] != sizes:
                raise ValueError(f"(batch, heads, width) is {sizes}, got {tuple(k.shape)} and {tuple(v.shape)}")
        if k.shape[2] != v.shape[2]:
            raise ValueError(f"k has {k.shape[2]} tokens and v {v.shape[2]}")
        if (after := self.length + k.shape[2]) > room:
            raise ValueError(f"{after} > {room}")
        for place, t in enumerate((k, v)):
            self.room[place, self.length : after].copy_(t.detach().permute(2, 0, 1, 3))
        self.length = after
        k, v = self.room[:, :after].permute(0, 2, 3, 1, 4)
        return k, v

    def truncate(self, length):
        if not (0 <= length <= self.length):
            raise ValueError(f"{length} of {self.length}")
        self.length = length


class CachedAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        kv = num_kv_heads or num_heads
        dim = self.dim = d_model // num_heads
        if d_model % num_heads or num_heads % kv or dim % 2:
            raise ValueError(f"d_model {d_model}, {num_heads} heads, {kv} key heads, width {dim}")
        self.kv, self.limit = kv, max_seq_len
        speed = torch.tensor([theta ** (-i / dim) for i in range(0, dim, 2)], dtype=torch.float64)
        angles = torch.arange(max_seq_len, dtype=torch.float64)[:, None] * speed
        self.turns = torch.polar(torch.ones_like(angles), angles)
        make = lambda width: nn.Linear(d_model, width, bias=False, device=device, dtype=dtype)
        self.q_proj, self.k_proj, self.v_proj = make(d_model), make(kv * dim), make(kv * dim)
        self.o_proj = make(d_model)

    def turned(self, x, start):
        wide = x.to(torch.promote_types(x.dtype, torch.float32)).unflatten(-1, (-1, 2)).contiguous()
        turns = self.turns.to(x.device)[start : start + x.shape[-2]].to(wide.dtype.to_complex())
        return torch.view_as_real(torch.view_as_complex(wide) * turns).flatten(-2)

    def forward(self, x, cache=None):
        first = 0 if cache is None else cache.length
        if first + x.shape[1] > self.limit:
            raise ValueError(f"{first} + {x.shape[1]} tokens, positions below {self.limit}")
        q, k, v = (p(x).unflatten(-1, (-1, self.dim)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        if cache is not None:
            k, v = cache.append(k, v)
        q, k = self.turned(q, first).unflatten(1, (self.kv, -1)), self.turned(k, 0)
        scores = torch.einsum("bgrsd,bgtd->bgrst", q, k) / self.dim**0.5
        s, t = scores.shape[-2:]
        seen = torch.ones(s, t, dtype=torch.bool, device=x.device).tril(t - s)
        weights = torch.where(seen, scores, -torch.inf).softmax(-1)
        out = torch.einsum("bgrst,bgtd->bsgrd", weights, v.to(weights.dtype))
        return self.o_proj(out.flatten(2).to(x.dtype))
