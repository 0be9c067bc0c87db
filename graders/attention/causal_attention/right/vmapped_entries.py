"""Written for one sequence without a batch; vmap makes a batch of it."""

import torch
from einops import rearrange
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        kv = num_heads if num_kv_heads is None else num_kv_heads
        if d_model % num_heads != 0 or num_heads % kv != 0:
            raise ValueError(f"{d_model} features for {num_heads} heads for {kv} key heads")
        if d_model // num_heads % 2 != 0:
            raise ValueError(f"{d_model} features for {num_heads} heads: an odd number each")
        self.kv, self.dim, self.limit = kv, d_model // num_heads, max_seq_len
        speed = torch.tensor([theta ** (-i / self.dim) for i in range(0, self.dim, 2)], dtype=torch.float64)
        angles = torch.arange(max_seq_len, dtype=torch.float64)[:, None] * speed
        self.tables = torch.stack((angles.cos(), angles.sin()))
        kind = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj, self.o_proj = nn.Linear(d_model, d_model, **kind), nn.Linear(d_model, d_model, **kind)
        self.k_proj, self.v_proj = (nn.Linear(d_model, kv * self.dim, **kind) for _ in range(2))

    def turned(self, x, tables):
        even, odd = rearrange(x, "t h (p two) -> two t h p", two=2)
        cos, sin = tables.to(x.dtype).unsqueeze(-2)
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    def one(self, q, k, v, positions):
        tables = self.tables[:, positions]
        q, k = self.turned(q, tables).unflatten(1, (self.kv, -1)), self.turned(k, tables)
        scores = torch.einsum("tgrd,sgd->grts", q, k) / self.dim**0.5
        later = torch.arange(q.shape[0], device=q.device)
        scores = torch.where(later[:, None] >= later, scores, -torch.inf)
        return torch.einsum("grts,sgd->tgrd", scores.softmax(-1), v).flatten(1)

    def forward(self, x, positions=None):
        positions = torch.arange(x.shape[1], device=x.device) if positions is None else positions
        low, high = int(positions.min()), int(positions.max())
        if low < 0 or high >= self.limit:
            raise ValueError(f"positions {low} … {high} outside [0, {self.limit})")
        self.tables = self.tables.to(x.device)
        work = torch.promote_types(x.dtype, torch.float32)
        q, k, v = (p(x).unflatten(-1, (-1, self.dim)).to(work) for p in (self.q_proj, self.k_proj, self.v_proj))
        out = torch.vmap(self.one)(q, k, v, positions.expand(x.shape[:2]))
        return self.o_proj(out.to(x.dtype))
