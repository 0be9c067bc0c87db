"""Sine and cosine stacked and woven together by einops; the learned table by F.embedding."""

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn


def check(seq, max_len):
    if seq > max_len:
        raise ValueError(f"{seq} tokens, but at most {max_len} positions")


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        if d_model % 2:
            raise ValueError(f"d_model={d_model} must be even")
        self.max_len = max_len
        angle = torch.arange(max_len).double()[:, None] / 10000 ** (torch.arange(d_model // 2).double() * 2 / d_model)
        self.table = rearrange([angle.sin(), angle.cos()], "two pos pair -> pos (pair two)")

    def forward(self, x):
        check(x.size(-2), self.max_len)
        self.table = self.table.to(x.device)
        work = torch.promote_types(x.dtype, torch.float32)
        return (x.to(work) + self.table[: x.size(-2)].to(work)).to(x.dtype)


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        self.max_len = max_len
        self.weight = nn.Parameter(torch.randn(max_len, d_model, device=device, dtype=dtype) * 0.02)

    def forward(self, x):
        check(x.size(-2), self.max_len)
        return x + F.embedding(torch.arange(x.size(-2), device=x.device), self.weight)
