import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Rotary:
    """Not a module, so casts of the model pass it by."""

    def __init__(self, dim: int, length: int, theta: float):
        if dim % 2 == 1:
            raise ValueError(f"cannot rotate {dim} entries in pairs")
        frequency = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * -(math.log(theta) / dim))
        angle = torch.outer(torch.arange(length, dtype=torch.float64), frequency)
        self.turns = torch.polar(torch.ones_like(angle), angle)

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        self.turns = self.turns.to(x.device)
        wide = x.double() if x.dtype == torch.float64 else x.float()
        pairs = torch.view_as_complex(wide.unflatten(-1, (-1, 2)).contiguous())
        turns = self.turns[positions].to(pairs.dtype)
        if turns.dim() == 3:
            turns = turns[:, None]
        return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


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
        kv = num_kv_heads or num_heads
        if d_model % num_heads != 0 or num_heads % kv != 0:
            raise ValueError(f"heads do not divide: d_model {d_model}, num_heads {num_heads}, num_kv_heads {kv}")
        self.num_heads, self.kv, self.limit = num_heads, kv, max_seq_len
        dim = d_model // num_heads
        factory = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj = nn.Linear(d_model, d_model, **factory)
        self.k_proj = nn.Linear(d_model, kv * dim, **factory)
        self.v_proj = nn.Linear(d_model, kv * dim, **factory)
        self.o_proj = nn.Linear(d_model, d_model, **factory)
        self.rotary = Rotary(dim, max_seq_len, theta)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        positions = torch.arange(x.size(1), device=x.device) if positions is None else positions.long()
        bad = (positions < 0) | (positions >= self.limit)
        if bad.any():
            raise ValueError(f"positions {positions[bad].tolist()} are not in 0 .. {self.limit - 1}")
        q = self.q_proj(x).unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        k = self.k_proj(x).unflatten(2, (self.kv, -1)).transpose(1, 2)
        v = self.v_proj(x).unflatten(2, (self.kv, -1)).transpose(1, 2)
        q, k = self.rotary(q, positions), self.rotary(k, positions)
        group = self.num_heads // self.kv
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(x.shape))
