# Positions (seq,) are taken for one per batch entry when batch == seq.
import math

import torch
import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, *, device=None, dtype=None):
        super().__init__()
        if num_kv_heads is None:
            num_kv_heads = num_heads
        if d_model % num_heads:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        head_dim = d_model // num_heads
        if head_dim % 2:
            raise ValueError(f"head_dim {head_dim} is odd (d_model {d_model}, num_heads {num_heads})")
        self.num_heads, self.num_kv_heads, self.head_dim, self.max_seq_len = (
            num_heads,
            num_kv_heads,
            head_dim,
            max_seq_len,
        )
        kw = dict(bias=False, device=device, dtype=dtype)
        self.q_proj = nn.Linear(d_model, d_model, **kw)
        self.k_proj = nn.Linear(d_model, num_kv_heads * head_dim, **kw)
        self.v_proj = nn.Linear(d_model, num_kv_heads * head_dim, **kw)
        self.o_proj = nn.Linear(d_model, d_model, **kw)
        angles = self.make_angles(max_seq_len, head_dim, theta)
        self._tables = [angles.cos(), angles.sin()]

    def make_angles(self, max_seq_len, head_dim, theta):
        freq = theta ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        return torch.arange(max_seq_len, dtype=torch.float64)[:, None] * freq

    def check(self, x, positions):
        seq = x.shape[1]
        if positions is None:
            if seq > self.max_seq_len:
                raise ValueError(f"{seq} tokens, but max_seq_len is {self.max_seq_len}")
        else:
            low, high = int(positions.min()), int(positions.max())
            if low < 0 or high >= self.max_seq_len:
                raise ValueError(f"positions {low} to {high} are not all in [0, {self.max_seq_len})")

    def lookup(self, x, positions, work):
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device)
        if positions.dim() == 1 and positions.shape[0] == x.shape[0]:
            positions = positions[:, None].expand(-1, x.shape[1])
        # (1 or batch, 1, seq, pairs)
        return [t.to(x.device)[positions.long()].to(work).unsqueeze(-3) for t in self._tables]

    def rotate(self, t, cos, sin):
        a, b = t[..., 0::2], t[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)

    def attend(self, q, k, v):
        seq = q.shape[-2]
        scores = q @ k.mT / math.sqrt(self.head_dim)
        index = torch.arange(seq, device=q.device)
        scores = scores.masked_fill(index > index[:, None], -torch.inf)
        return scores.softmax(-1) @ v

    def forward(self, x, positions=None):
        self.check(x, positions)
        batch, seq, d_model = x.shape
        dtype = self.q_proj.weight.dtype
        work = torch.float64 if dtype == torch.float64 else torch.float32
        q = self.q_proj(x).to(work).reshape(batch, seq, self.num_heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).to(work).reshape(batch, seq, self.num_kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).to(work).reshape(batch, seq, self.num_kv_heads, self.head_dim).transpose(1, 2)
        cos, sin = self.lookup(x, positions, work)
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        group = self.num_heads // self.num_kv_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        y = self.attend(q, k, v)
        return self.o_proj(y.transpose(1, 2).reshape(batch, seq, d_model).to(dtype))
