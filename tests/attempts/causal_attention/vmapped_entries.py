"""Written for one sequence without a batch; vmap makes a batch of it."""

import torch
from einops import rearrange
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(
        self,
        d_model: int,
        num_heads: int,
        max_seq_len: int,
        theta: float = 10000.0,
        num_kv_heads: int | None = None,
        *,
        device=None,
        dtype=None,
    ):
        super().__init__()
        kv = num_heads if num_kv_heads is None else num_kv_heads
        if d_model % num_heads != 0:
            raise ValueError(f"{d_model} features for {num_heads} heads")
        if num_heads % kv != 0:
            raise ValueError(f"{num_heads} heads for {kv} key heads")
        if d_model // num_heads % 2 != 0:
            raise ValueError(f"{d_model} features for {num_heads} heads: an odd number each")
        self.heads, self.kv, self.dim, self.limit = num_heads, kv, d_model // num_heads, max_seq_len
        self.speed = [theta ** (-i / self.dim) for i in range(0, self.dim, 2)]
        self.q_proj = nn.Linear(d_model, self.heads * self.dim, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, self.kv * self.dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, self.kv * self.dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, self.heads * self.dim, bias=False, device=device, dtype=dtype)

    def turned(self, x, angles):
        even, odd = rearrange(x, "t h (p two) -> two t h p", two=2)
        cos, sin = angles.cos().to(x.dtype)[:, None], angles.sin().to(x.dtype)[:, None]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)

    def one(self, q, k, v, positions):
        angles = positions.double()[:, None] * torch.tensor(self.speed, dtype=torch.float64, device=q.device)
        q, k = self.turned(q, angles), self.turned(k, angles)
        q = q.unflatten(1, (self.kv, -1))
        scores = torch.einsum("tgrd,sgd->grts", q, k) / self.dim**0.5
        later = torch.arange(q.shape[0], device=q.device)
        scores = torch.where(later[:, None] >= later, scores, -torch.inf)
        return torch.einsum("grts,sgd->tgrd", scores.softmax(-1), v).flatten(1)

    def forward(self, x, positions=None):
        seq = x.shape[1]
        if positions is None:
            positions = torch.arange(seq, device=x.device)
        if int(positions.min()) < 0 or int(positions.max()) >= self.limit:
            raise ValueError(f"positions {int(positions.min())} … {int(positions.max())} outside [0, {self.limit})")
        work = torch.promote_types(x.dtype, torch.float32)
        q = self.q_proj(x).unflatten(-1, (self.heads, self.dim)).to(work)
        k, v = (p(x).unflatten(-1, (self.kv, self.dim)).to(work) for p in (self.k_proj, self.v_proj))
        out = torch.vmap(self.one)(q, k, v, positions.expand(x.shape[0], seq))
        return self.o_proj(out.to(x.dtype))
