"""Einsum from end to end; the values are divided by the sum of the exponentials at the end."""

import torch
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model, num_heads, *, device=None, dtype=None):
        if d_model % num_heads != 0:
            raise ValueError(f"{num_heads} heads do not divide a model of {d_model}")
        super().__init__()
        self.heads = num_heads
        self.q_proj, self.k_proj = (nn.Linear(d_model, d_model, False, device, dtype) for _ in range(2))
        self.v_proj, self.o_proj = (nn.Linear(d_model, d_model, False, device, dtype) for _ in range(2))

    def split(self, weight):
        return weight.unflatten(0, (self.heads, -1))

    def forward(self, x, context=None, mask=None):
        memory = x if context is None else context
        q = torch.einsum("btm,hdm->bhtd", x, self.split(self.q_proj.weight)).float()
        k = torch.einsum("bsm,hdm->bhsd", memory, self.split(self.k_proj.weight)).float()
        v = torch.einsum("bsm,hdm->bhsd", memory, self.split(self.v_proj.weight)).float()
        scores = torch.einsum("bhtd,bhsd->bhts", q * q.shape[-1] ** -0.5, k)
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), -1e30)
        weights = (scores - scores.amax(-1, keepdim=True)).exp()
        if mask is not None:
            weights = weights * mask
        total = weights.sum(-1, keepdim=True)
        heads = torch.einsum("bhts,bhsd->bhtd", weights, v) / torch.where(total == 0, 1.0, total)
        return torch.einsum("bhtd,mhd->btm", heads.to(x.dtype), self.o_proj.weight.unflatten(1, (self.heads, -1)))
