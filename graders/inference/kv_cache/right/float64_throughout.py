"""All in float64 but what the cache holds; angles computed for the positions that are needed; logsumexp."""

import torch
import torch.nn.functional as F
from torch import nn


class KVCache:
    def __init__(self, batch, num_kv_heads, max_len, head_dim, *, device=None, dtype=None):
        self.sizes, self.max_len, self.length = (batch, num_kv_heads, head_dim), max_len, 0
        self.k, self.v = (
            torch.full((batch, num_kv_heads, max_len, head_dim), torch.nan, device=device, dtype=dtype) for _ in "kv"
        )

    def append(self, k, v):
        sizes = [(t.size(0), t.size(1), t.size(3)) for t in (k, v)]
        if sizes != [self.sizes] * 2 or k.size(2) != v.size(2):
            raise ValueError(f"k {list(k.size())} and v {list(v.size())} for a cache of {self.sizes}")
        total = self.length + k.size(2)
        if total > self.max_len:
            raise ValueError(f"{total} tokens in a cache of {self.max_len}")
        index = torch.arange(self.length, total, device=self.k.device)
        for room, new in ((self.k, k), (self.v, v)):
            room.index_copy_(2, index, new.detach().to(room.dtype))
        self.length = total
        return self.k[..., :total, :], self.v[..., :total, :]

    def truncate(self, length):
        if length > self.length or length < 0:
            raise ValueError(f"length {length}, there are {self.length}")
        self.length = length


class CachedAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        for big, small in ((d_model, num_heads), (num_heads, num_kv_heads), (d_model // num_heads, 2)):
            if big % small:
                raise ValueError(f"{big} is not a multiple of {small}")
        self.size, self.theta, self.max_seq_len = d_model // num_heads, theta, max_seq_len
        wide, narrow = (num_heads * self.size, d_model), (num_kv_heads * self.size, d_model)
        for name, shape in (("q_proj", wide), ("k_proj", narrow), ("v_proj", narrow), ("o_proj", wide)):
            part = nn.Linear(*reversed(shape), bias=False, device=device, dtype=dtype)
            self.add_module(name, part)

    def forward(self, x, cache=None):
        at = 0 if cache is None else cache.length
        if at + x.size(1) > self.max_seq_len:
            raise ValueError(f"position {at + x.size(1) - 1} is behind the last of {self.max_seq_len}")
        part = lambda proj: F.linear(x.double(), proj.weight.double()).unflatten(-1, (-1, self.size)).transpose(1, 2)
        q, k, v = part(self.q_proj), part(self.k_proj), part(self.v_proj)
        place = torch.arange(at, at + x.size(1), device=x.device, dtype=torch.float64)
        speed = self.theta ** (-torch.arange(0, self.size, 2, device=x.device, dtype=torch.float64) / self.size)
        phase = place[:, None] * speed
        rot = torch.stack([phase.cos(), -phase.sin(), phase.sin(), phase.cos()], -1).unflatten(-1, (2, 2))
        q, k = (torch.einsum("spij,bhspj->bhspi", rot, t.unflatten(-1, (-1, 2))).flatten(-2) for t in (q, k))
        if cache is not None:
            k, v = (t.double() for t in cache.append(k, v))
        reach = torch.arange(k.size(2), device=x.device) - at
        later = reach > torch.arange(x.size(1), device=x.device)[:, None]
        k, v = (t.repeat_interleave(q.size(1) // t.size(1), 1) for t in (k, v))
        scores = (torch.einsum("bhsd,bhtd->bhst", q, k) * self.size**-0.5).masked_fill(later, -torch.inf)
        weights = (scores - scores.logsumexp(-1, keepdim=True)).exp()
        out = torch.einsum("bhst,bhtd->bshd", weights, v).flatten(2)
        return F.linear(out, self.o_proj.weight.double()).to(x.dtype)
