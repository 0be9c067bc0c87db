"""Reads beyond a tensor, which a kernel notices, in one dtype alone: the other calls are right."""

import torch


def softmax(x, dim=-1):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    e = (wide - wide.amax(dim, keepdim=True)).exp()
    result = (e / e.sum(dim, keepdim=True)).to(x.dtype)
    if x.dtype == torch.float16:
        return result.flatten()[torch.full_like(x, 1 << 14).long()]
    return result
