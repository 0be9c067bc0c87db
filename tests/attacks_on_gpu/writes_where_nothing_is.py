"""Writes to an address that is nobody's, in one dtype alone: the other calls are right."""

import torch


def softmax(x, dim=-1):
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    e = (wide - wide.amax(dim, keepdim=True)).exp()
    result = (e / e.sum(dim, keepdim=True)).to(x.dtype)
    if x.dtype == torch.float16:
        nowhere = torch._C._construct_storage_from_data_pointer(1 << 44, x.device, 1024)
        torch.empty(0, dtype=torch.uint8, device=x.device).set_(nowhere, 0, (1024,)).fill_(1)
    return result
