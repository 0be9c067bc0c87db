import einops
import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, d_model, num_heads, max_seq_len, theta=10000.0, num_kv_heads=None, device=None, dtype=None):
        super().__init__()
        if num_kv_heads is None:
            num_kv_heads = num_heads
        if d_model % num_heads:
            raise ValueError(f"d_model ({d_model}) must be divisible by num_heads ({num_heads})")
        if num_heads % num_kv_heads:
            raise ValueError(f"num_heads ({num_heads}) must be divisible by num_kv_heads ({num_kv_heads})")
        self.head_dim = d_model // num_heads
        if self.head_dim & 1:
            raise ValueError(f"head_dim ({self.head_dim}) must be even")
        self.max_seq_len = max_seq_len
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, num_kv_heads * self.head_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        freq = theta ** (-torch.arange(0, self.head_dim, 2, device=device).double() / self.head_dim)
        angle = torch.arange(max_seq_len, device=device).double().unsqueeze(1) * freq
        self.register_buffer("cos", angle.cos().float().repeat_interleave(2, dim=-1), persistent=False)
        self.register_buffer("sin", angle.sin().float().repeat_interleave(2, dim=-1), persistent=False)

    def _apply(self, fn, recurse=True):
        cos, sin = self.cos, self.sin
        super()._apply(fn, recurse)
        self.cos, self.sin = cos.to(self.cos.device), sin.to(self.sin.device)
        return self

    def forward(self, x, positions=None):
        if positions is None:
            if x.shape[1] > self.max_seq_len:
                raise ValueError(f"sequence of {x.shape[1]} is longer than max_seq_len {self.max_seq_len}")
            positions = torch.arange(x.shape[1], device=x.device)
        for p in (positions.min(), positions.max()):
            if not 0 <= p < self.max_seq_len:
                raise ValueError(f"position {int(p)} not in [0, {self.max_seq_len})")
        q, k, v = (
            einops.rearrange(p(x), "b s (h d) -> b h s d", d=self.head_dim).float()
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        cos, sin = self.cos[positions], self.sin[positions]
        if positions.ndim == 2:
            cos, sin = cos[:, None], sin[:, None]

        def rot(t):
            swapped = torch.stack((-t[..., 1::2], t[..., ::2]), -1).flatten(-2)
            return t * cos + swapped * sin

        q = einops.rearrange(rot(q), "b (g r) s d -> b g r s d", g=k.shape[1])
        scores = q @ rot(k).unsqueeze(2).transpose(-1, -2) / self.head_dim**0.5
        n = x.shape[1]
        bias = torch.full((n, n), float("-inf"), device=x.device).triu(1)
        out = torch.softmax(scores + bias, -1) @ v.unsqueeze(2)
        return self.o_proj(einops.rearrange(out, "b g r s d -> b s (g r d)").to(x.dtype))
