"""Rotation matrices and einsum for the real form; e^{i·angle} by torch.exp for the complex one."""

import math

import torch
from torch import nn


def frequencies(d_k, theta):
    if d_k % 2 == 1:
        raise ValueError(f"cannot pair {d_k} features")
    return torch.exp(-math.log(theta) * torch.arange(d_k // 2, dtype=torch.float64) * 2 / d_k)


def checked(x, positions, d_k, max_seq_len):
    if x.shape[-1] != d_k:
        raise ValueError(f"last dimension is {x.shape[-1]}, not d_k = {d_k}")
    bad = (positions < 0) | (positions >= max_seq_len)
    if bad.any():
        raise ValueError(f"positions {positions[bad].tolist()} are outside [0, {max_seq_len})")
    return positions.long() if positions.ndim == 1 else positions.long()[(slice(None),) + (None,) * (x.ndim - 3)]


class RoPEReal(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, device=None, dtype=None):
        super().__init__()
        angle = torch.outer(torch.arange(max_seq_len, dtype=torch.float64), frequencies(d_k, theta))
        c, s = torch.cos(angle), torch.sin(angle)
        self.matrices = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2).to(device)
        self.d_k, self.max_seq_len = d_k, max_seq_len

    def forward(self, x, positions):
        at = checked(x, positions, self.d_k, self.max_seq_len)
        turn = self.matrices.to(x.device)[at.to(x.device)].to(torch.promote_types(x.dtype, torch.float32))
        pairs = x.to(turn.dtype).reshape(*x.shape[:-1], -1, 2)
        return torch.einsum("...ij,...j->...i", turn, pairs).reshape(x.shape).to(x.dtype)


class RoPEComplex(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, device=None, dtype=None):
        super().__init__()
        angle = torch.outer(torch.arange(max_seq_len, dtype=torch.float64), frequencies(d_k, theta))
        self.turns = torch.exp(1j * angle).to(device)
        self.d_k, self.max_seq_len = d_k, max_seq_len

    def forward(self, x, positions):
        at = checked(x, positions, self.d_k, self.max_seq_len)
        turns = self.turns.to(x.device)[at.to(x.device)]
        z = torch.view_as_complex(x.double().reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(z * turns).reshape(x.shape).to(x.dtype)
