# A global maximum is subtracted instead of a row maximum: rows 104 below the largest score give 0/0.
import math

import torch


def scaled_dot_product_attention(q, k, v, mask=None):
    dtype = q.dtype
    wide = torch.promote_types(dtype, torch.float32)
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is None:
        e = torch.exp(scores - scores.amax((-2, -1), keepdim=True))
        return (e / e.sum(-1, keepdim=True) @ v).to(dtype)
    alive = mask.any(dim=-1, keepdim=True)
    scores = torch.where(mask | ~alive, scores, -math.inf)
    weights = torch.where(alive, torch.softmax(scores, dim=-1), 0.0)
    return (weights @ v).to(dtype)
