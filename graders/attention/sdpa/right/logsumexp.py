"""Log-weights first: scores less their logsumexp, as the fused kernels keep them for the way back."""

import torch
from torch import Tensor


def scaled_dot_product_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    work = torch.promote_types(q.dtype, torch.float32)
    scores = torch.matmul(q.to(work) * q.shape[-1] ** -0.5, k.to(work).transpose(-2, -1))
    if mask is not None:
        scores = torch.where(mask, scores, torch.finfo(work).min)
    log_weights = scores - torch.logsumexp(scores, dim=-1, keepdim=True)
    weights = log_weights.exp()
    if mask is not None:
        weights = torch.where(mask, weights, 0.0)
    return torch.matmul(weights, v.to(work)).to(q.dtype)
