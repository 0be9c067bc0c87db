"""Scores by broadcasting and summing; a softmax that is a module."""

import torch
from torch import Tensor, nn


class Softmax(nn.Module):
    """A softmax that gives zeros where nothing is allowed."""

    def forward(self, scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return nn.functional.softmax(scores, dim=-1)
        low = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        return torch.where(mask, nn.functional.softmax(low, dim=-1), 0.0)


_softmax = Softmax()


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q.to(wide).unsqueeze(-2) * k.to(wide).unsqueeze(-3)).sum(-1).div(q.shape[-1] ** 0.5)
    weights = _softmax(scores, mask).to(v.dtype)
    return weights @ v
