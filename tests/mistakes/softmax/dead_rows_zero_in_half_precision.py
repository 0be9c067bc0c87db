# A row of only -inf gives zeros instead of nan in half precision only.
import torch


def softmax(x, dim=-1):
    z = x if x.dtype == torch.float64 else x.float()
    e = (z - z.amax(dim, keepdim=True)).exp()
    w = e / e.sum(dim, keepdim=True)
    if x.dtype in (torch.float16, torch.bfloat16):
        w = w.nan_to_num(0.0)
    return w.to(x.dtype)
