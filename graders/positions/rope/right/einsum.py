"""Rotation matrices and einsum for the real form; e^{i·angle} by torch.exp for the complex one."""

import math

import torch
from torch import nn


class Turns(nn.Module):
    """Looks the turns of positions up; `build` makes them of angles, `turn` applies them to pairs."""

    def __init__(self, d_k, max_seq_len, theta=10000.0, device=None, dtype=None):
        super().__init__()
        if d_k % 2 == 1:
            raise ValueError(f"cannot pair {d_k} features")
        self.d_k, self.max_seq_len = d_k, max_seq_len
        frequencies = torch.exp(-math.log(theta) * torch.arange(d_k // 2, dtype=torch.float64) * 2 / d_k)
        self.turns = self.build(torch.outer(torch.arange(max_seq_len, dtype=torch.float64), frequencies)).to(device)

    def forward(self, x, positions):
        if x.shape[-1] != self.d_k:
            raise ValueError(f"last dimension is {x.shape[-1]}, not d_k = {self.d_k}")
        bad = (positions < 0) | (positions >= self.max_seq_len)
        if bad.any():
            raise ValueError(f"positions {positions[bad].tolist()} are outside [0, {self.max_seq_len})")
        at = positions.to(x.device).long()
        at = at if at.ndim == 1 else at[(slice(None),) + (None,) * (x.ndim - 3)]
        return self.turn(x.reshape(*x.shape[:-1], -1, 2), self.turns.to(x.device)[at]).reshape(x.shape).to(x.dtype)


class RoPEReal(Turns):
    def build(self, angle):
        c, s = torch.cos(angle), torch.sin(angle)
        return torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)

    def turn(self, pairs, matrices):
        work = torch.promote_types(pairs.dtype, torch.float32)
        return torch.einsum("...ij,...j->...i", matrices.to(work), pairs.to(work))


class RoPEComplex(Turns):
    def build(self, angle):
        return torch.exp(1j * angle)

    def turn(self, pairs, turns):
        return torch.view_as_real(torch.view_as_complex(pairs.double().contiguous()) * turns)
