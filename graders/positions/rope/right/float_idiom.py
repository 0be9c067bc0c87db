"""Float32 throughout; tables as buffers that `_apply` keeps in float32; angles in float32."""

import torch
from torch import nn


class _Tables(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        if d_k % 2:
            raise ValueError(f"d_k must be even, got {d_k}")
        self.d_k, self.max_seq_len = d_k, max_seq_len
        inv_freq = 1.0 / (theta ** (torch.arange(0, d_k, 2, device=device).float() / d_k))
        angles = torch.arange(max_seq_len, device=device).float()[:, None] * inv_freq[None, :]
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def _apply(self, fn, *args, **kwargs):
        cos, sin = self.cos, self.sin
        super()._apply(fn, *args, **kwargs)
        self.cos, self.sin = cos.to(self.cos.device), sin.to(self.sin.device)
        return self

    def forward(self, x, positions):
        if x.size(-1) != self.d_k:
            raise ValueError(f"expected last dimension {self.d_k}, got {x.size(-1)}")
        low, high = int(positions.min()), int(positions.max())
        if low < 0 or high >= self.max_seq_len:
            raise ValueError(f"positions must lie in [0, {self.max_seq_len}), got {low} to {high}")
        cos, sin = self.cos[positions], self.sin[positions]
        if positions.dim() == 2:
            for _ in range(x.dim() - 3):
                cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
        return self.turn(x.float().unflatten(-1, (-1, 2)), cos, sin).flatten(-2).type_as(x)


class RoPEReal(_Tables):
    def turn(self, pairs, cos, sin):
        even, odd = pairs[..., 0], pairs[..., 1]
        return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)


class RoPEComplex(_Tables):
    def turn(self, pairs, cos, sin):
        return torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * torch.complex(cos, sin))
