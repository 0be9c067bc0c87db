"""Einsum in float32; -inf only in rows that see something."""

import torch
from torch import Tensor


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    dtype = q.dtype
    q, k, v = q.float(), k.float(), v.float()
    scores = torch.einsum("...sd,...td->...st", q, k) * k.shape[-1] ** -0.5
    if mask is not None:
        alive = mask.any(dim=-1, keepdim=True)
        scores = scores.masked_fill(~mask & alive, float("-inf"))
        weights = scores.softmax(-1) * alive
    else:
        weights = scores.softmax(-1)
    return torch.einsum("...st,...te->...se", weights, v).to(dtype)
