"""bmm over flat leading dimensions, a softmax by hand and an additive bias."""

import math

import torch


def scaled_dot_product_attention(q, k, v, mask=None):
    lead = torch.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    s, t = q.size(-2), k.size(-2)
    work = torch.float64 if q.dtype == torch.float64 else torch.float32
    flat = [x.to(work).expand(*lead, *x.shape[-2:]).reshape(-1, *x.shape[-2:]) for x in (q, k, v)]
    scores = torch.bmm(flat[0] / math.sqrt(q.size(-1)), flat[1].transpose(1, 2))
    if mask is not None:
        allowed = mask.expand(*lead, s, t).reshape(-1, s, t)
        bias = torch.zeros_like(scores).masked_fill(~allowed, torch.finfo(work).min)
        scores = scores * allowed + bias
    weights = torch.exp(scores - scores.max(dim=-1, keepdim=True).values.detach())
    if mask is not None:
        weights = weights * allowed
    total = weights.sum(dim=-1, keepdim=True)
    heads = torch.bmm(weights, flat[2]) / torch.where(total == 0, 1.0, total)
    return heads.reshape(*lead, s, v.size(-1)).to(q.dtype)
