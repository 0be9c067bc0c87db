"""The half-split RoPE of Hugging Face on rows that are permuted first: scores do not mind the order of features."""

import torch
import torch.nn.functional as F
from torch import nn


def halves(x):
    """Even entries first, odd entries after them."""
    return torch.cat((x[..., ::2], x[..., 1::2]), dim=-1)


def rotate_half(x):
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        num_kv_heads = num_kv_heads or num_heads
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} % num_heads {num_heads} != 0")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads {num_heads} % num_kv_heads {num_kv_heads} != 0")
        self.head_dim = d_model // num_heads
        if self.head_dim % 2:
            raise ValueError(f"head_dim {self.head_dim} is odd")
        self.max_seq_len = max_seq_len
        self.inv_freq = [theta ** (-2 * i / self.head_dim) for i in range(self.head_dim // 2)]
        angles = torch.arange(max_seq_len).double()[:, None] * torch.tensor(self.inv_freq).double().repeat(2)
        self.rotary = {"cos": angles.cos(), "sin": angles.sin()}
        kind = dict(bias=False, device=device, dtype=dtype)
        self.q_proj = nn.Linear(d_model, d_model, **kind)
        self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, **kind)
        self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, **kind)
        self.o_proj = nn.Linear(d_model, d_model, **kind)

    def forward(self, x, positions=None):
        batch, seq, _ = x.shape
        if positions is None:
            positions = torch.arange(seq, device=x.device)
        if (positions < 0).any() or (positions >= self.max_seq_len).any():
            raise ValueError(f"positions {positions.tolist()} outside [0, {self.max_seq_len})")
        work = torch.promote_types(x.dtype, torch.float32)
        cos, sin = (self.rotary[n].to(x.device)[positions].to(work) for n in ("cos", "sin"))
        if positions.ndim == 2:
            cos, sin = cos[:, None], sin[:, None]
        q, k, v = (
            p(x).view(batch, seq, -1, self.head_dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = halves(q.to(work)), halves(k.to(work))
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
        causal = torch.ones(seq, seq, dtype=torch.bool, device=x.device).tril()
        out = F.scaled_dot_product_attention(q, k, v.to(work), attn_mask=causal)
        return self.o_proj(out.transpose(1, 2).reshape(batch, seq, -1).to(x.dtype))
