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
        kv_heads = num_kv_heads or num_heads
        size = self.head_dim = d_model // num_heads
        if d_model % num_heads or num_heads % kv_heads or size % 2:
            raise ValueError(f"d_model {d_model}, num_heads {num_heads}, num_kv_heads {kv_heads}, head_dim {size}")
        self.max_seq_len = max_seq_len
        inv_freq = torch.tensor([theta ** (-2 * i / size) for i in range(size // 2)]).double()
        angles = torch.arange(max_seq_len).double()[:, None] * inv_freq.repeat(2)
        self.rotary = {"cos": angles.cos(), "sin": angles.sin()}
        kind = dict(bias=False, device=device, dtype=dtype)
        self.q_proj, self.o_proj = (nn.Linear(d_model, d_model, **kind) for _ in "qo")
        self.k_proj, self.v_proj = (nn.Linear(d_model, kv_heads * size, **kind) for _ in "kv")

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
        heads = lambda linear: linear(x).view(batch, seq, -1, self.head_dim).transpose(1, 2).to(work)
        q, k, v = halves(heads(self.q_proj)), halves(heads(self.k_proj)), heads(self.v_proj)
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], dim=1) for t in (k, v))
        causal = torch.ones(seq, seq, dtype=torch.bool, device=x.device).tril()
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=causal)
        return self.o_proj(out.transpose(1, 2).reshape(batch, seq, -1).to(x.dtype))
