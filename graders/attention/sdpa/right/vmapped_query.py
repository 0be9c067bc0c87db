"""One query at a time under vmap, in float64."""

import torch
from torch.func import vmap


def one_query(q, k, v, allowed):
    scores = k.mv(q) / q.shape[0] ** 0.5
    scores = torch.where(allowed, scores, -1e30)
    e = torch.exp(scores - scores.amax()) * allowed
    return (e @ v) / e.sum().clamp(min=torch.finfo(e.dtype).tiny)


def scaled_dot_product_attention(q, k, v, mask=None):
    out_dtype = q.dtype
    lead = torch.broadcast_tensors(q[..., 0, 0], k[..., 0, 0], v[..., 0, 0])[0].shape
    s, t = q.shape[-2], k.shape[-2]
    q, k, v = (
        x.to(torch.float64).expand(*lead, *x.shape[-2:]).flatten(0, -3) if lead else x.double()[None] for x in (q, k, v)
    )
    if mask is None:
        mask = torch.ones(s, t, dtype=torch.bool, device=q.device)
    mask = mask.expand(*lead, s, t).flatten(0, -3) if lead else mask[None]
    result = vmap(vmap(one_query, in_dims=(0, None, None, 0)))(q, k, v, mask)
    return result.unflatten(0, lead).to(out_dtype) if lead else result[0].to(out_dtype)
