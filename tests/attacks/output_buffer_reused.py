"""Writes every answer into the same memory, so that an earlier answer changes under its owner."""

import torch

_buffers = {}


def softmax(x, dim=-1):
    wide = x if x.dtype.itemsize == 8 else x.float()
    e = (wide - wide.amax(dim, keepdim=True)).exp()
    result = (e / e.sum(dim, keepdim=True)).to(x.dtype)
    if x.requires_grad:
        return result
    buffer = _buffers.setdefault((tuple(x.shape), x.dtype), torch.empty_like(result))
    return buffer.copy_(result)
