"""Tables computed in NumPy at construction, complex in both forms: the real one reads their parts."""

import numpy as np
import torch
from torch import nn


def phasors(d_k, max_seq_len, theta):
    if d_k % 2:
        raise ValueError(f"d_k = {d_k} is odd")
    angle = np.outer(np.arange(max_seq_len), theta ** (-np.arange(0, d_k, 2) / d_k))
    return torch.from_numpy(np.exp(1j * angle))


class Rotary(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        self.d_k, self.turns = d_k, phasors(d_k, max_seq_len, theta)

    def look_up(self, x, positions):
        if x.shape[-1] != self.d_k:
            raise ValueError(f"x has {x.shape[-1]} columns, not {self.d_k}")
        if ((positions < 0) | (positions >= len(self.turns))).any():
            raise ValueError(f"positions {positions.tolist()} are not all in [0, {len(self.turns)})")
        self.turns = self.turns.to(x.device)
        turns = self.turns[positions]
        return turns if positions.dim() == 1 else turns[(slice(None), *[None] * (x.dim() - 3))]


class RoPEReal(Rotary):
    def forward(self, x, positions):
        turns = self.look_up(x, positions)
        pairs = x.double().unflatten(-1, (-1, 2))
        first, second = pairs[..., 0], pairs[..., 1]
        turned = first * turns.real - second * turns.imag, first * turns.imag + second * turns.real
        return torch.stack(turned, -1).flatten(-2).to(x.dtype)


class RoPEComplex(Rotary):
    def forward(self, x, positions):
        turns = self.look_up(x, positions)
        pairs = x.double().unflatten(-1, (-1, 2))
        turned = torch.complex(pairs[..., 0], pairs[..., 1]) * turns
        return torch.view_as_real(turned).flatten(-2).to(x.dtype)
