"""Named axes by einops; softmax over where(mask, score, -inf), dead rows set to zero by where."""

import torch
from einops import einsum


def scaled_dot_product_attention(q, k, v, mask=None):
    dtype = q.dtype
    work = torch.promote_types(q.dtype, torch.float32)
    lead = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    q, k, v = (t.to(work).expand(*lead, -1, -1) for t in (q, k, v))
    scores = einsum(q, k, "... s d, ... t d -> ... s t") * q.size(-1) ** -0.5
    if mask is None:
        return einsum(scores.softmax(-1), v, "... s t, ... t d -> ... s d").to(dtype)
    alive = mask.any(-1, keepdim=True)
    scores = torch.where(alive, torch.where(mask, scores, float("-inf")), 0.0)
    weights = torch.where(alive, scores.softmax(-1), 0.0)
    return einsum(weights, v, "... s t, ... t d -> ... s d").to(dtype)
