# A mask that has more leading dimensions than q and k (they come from v alone) is refused by the in-place fill.
import math

import torch


def scaled_dot_product_attention(q, k, v, mask=None):
    dtype = q.dtype
    wide = torch.promote_types(dtype, torch.float32)
    q, k, v = q.to(wide), k.to(wide), v.to(wide)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is None:
        return (torch.softmax(scores, dim=-1) @ v).to(dtype)
    alive = mask.any(dim=-1, keepdim=True)
    scores = scores.clone().masked_fill_(~(mask | ~alive), -math.inf)
    weights = torch.where(alive, torch.softmax(scores, dim=-1), 0.0)
    return (weights @ v).to(dtype)
