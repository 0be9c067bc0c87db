"""Pairs by einops; positions checked by their extremes; angles in float64."""

import torch
from einops import rearrange
from torch import nn


class Base(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        if d_k % 2:
            raise ValueError(f"d_k={d_k} is odd")
        self.d_k, self.max_seq_len = d_k, max_seq_len
        inverse = torch.tensor([theta ** (-i / d_k) for i in range(0, d_k, 2)], dtype=torch.float64)
        self.build(torch.einsum("p,i->pi", torch.arange(max_seq_len, dtype=torch.float64), inverse))

    def rows(self, table, x, positions):
        if x.shape[-1] != self.d_k:
            raise ValueError(f"expected width {self.d_k}, got {x.shape[-1]}")
        low, high = int(positions.min()), int(positions.max())
        if low < 0 or high >= self.max_seq_len:
            raise ValueError(f"positions from {low} to {high}, but there are {self.max_seq_len}")
        found = table.to(x.device)[positions]
        while positions.dim() == 2 and found.dim() < x.dim():
            found = found.unsqueeze(1)
        return found


class RoPEReal(Base):
    def build(self, angles):
        self.tables = (angles.cos(), angles.sin())

    def forward(self, x, positions):
        work = torch.promote_types(x.dtype, torch.float32)
        cos, sin = (self.rows(t, x, positions).to(work) for t in self.tables)
        a, b = rearrange(x.to(work), "... (pair two) -> two ... pair", two=2)
        turned = torch.stack([a * cos - b * sin, b * cos + a * sin])
        return rearrange(turned, "two ... pair -> ... (pair two)").to(x.dtype)


class RoPEComplex(Base):
    def build(self, angles):
        self.phasors = torch.complex(angles.cos(), angles.sin())

    def forward(self, x, positions):
        work = torch.promote_types(x.dtype, torch.float32)
        turns = self.rows(self.phasors, x, positions)
        z = torch.view_as_complex(rearrange(x.to(work), "... (pair two) -> ... pair two", two=2).contiguous())
        return torch.view_as_real(z * turns.to(z.dtype)).flatten(-2).to(x.dtype)
