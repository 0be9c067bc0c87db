"""x · cos + rotate(x) · sin, with tables repeated for both members of a pair; two halves of a complex number."""

import torch
from torch import nn


def rotate(x):
    return torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)


class Rope(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        if d_k % 2 != 0:
            raise ValueError(f"d_k={d_k} is odd")
        self.d_k, self.max_seq_len = d_k, max_seq_len
        power = torch.arange(0, d_k, 2, dtype=torch.float32) / d_k
        angle = torch.arange(max_seq_len, dtype=torch.float32).outer(torch.pow(theta, -power)).to(device)
        self.table = self.make(angle)

    def look_up(self, x, positions):
        if x.shape[-1] != self.d_k:
            raise ValueError(f"got a last dimension of {x.shape[-1]}; this module turns {self.d_k}")
        if torch.any(positions >= self.max_seq_len) or torch.any(positions < 0):
            raise ValueError(f"position out of range 0..{self.max_seq_len - 1}: {positions}")
        rows = self.table.to(x.device)[positions]
        if positions.ndim == 2:
            rows = rows.reshape(rows.shape[0], *([1] * (x.ndim - 3)), *rows.shape[1:])
        return rows


class RoPEReal(Rope):
    def make(self, angle):
        both = angle.repeat_interleave(2, dim=-1)
        return torch.stack([both.cos(), both.sin()], dim=-1)

    def forward(self, x, positions):
        cos, sin = self.look_up(x, positions).unbind(-1)
        wide = x.to(torch.float32)
        return (wide * cos + rotate(wide) * sin).to(x.dtype)


class RoPEComplex(Rope):
    def make(self, angle):
        return torch.polar(torch.ones_like(angle), angle)

    def forward(self, x, positions):
        wide = x.to(torch.float32)
        turned = torch.complex(wide[..., ::2], wide[..., 1::2]).mul(self.look_up(x, positions))
        return torch.stack((turned.real, turned.imag), dim=-1).flatten(start_dim=-2).to(x.dtype)
