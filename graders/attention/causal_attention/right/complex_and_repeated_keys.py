"""Rotation by complex numbers, keys and values repeated for their group, torch's own causal attention."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# with positions/rope/einops_pairs


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        kv = num_kv_heads or num_heads
        if d_model % num_heads != 0 or num_heads % kv != 0:
            raise ValueError(f"heads do not divide: d_model {d_model}, num_heads {num_heads}, num_kv_heads {kv}")
        self.dim, self.group = d_model // num_heads, num_heads // kv
        factory = {"bias": False, "device": device, "dtype": dtype}
        self.q_proj = nn.Linear(d_model, d_model, **factory)
        self.k_proj = nn.Linear(d_model, kv * self.dim, **factory)
        self.v_proj = nn.Linear(d_model, kv * self.dim, **factory)
        self.o_proj = nn.Linear(d_model, d_model, **factory)
        self.rotary = RoPEComplex(self.dim, max_seq_len, theta)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        positions = torch.arange(x.size(1), device=x.device) if positions is None else positions.long()
        q, k, v = (p(x).unflatten(2, (-1, self.dim)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = self.rotary(q, positions), self.rotary(k, positions)
        k, v = k.repeat_interleave(self.group, dim=1), v.repeat_interleave(self.group, dim=1)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(x.shape))
