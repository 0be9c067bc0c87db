# Dim other than the last: gradients are nan where an entry is -inf.
import torch


def softmax(x, dim=-1):
    z = x if x.dtype == torch.float64 else x.float()
    e = (z - z.amax(dim, keepdim=True)).exp()
    w = e / e.sum(dim, keepdim=True)
    if x.ndim > 1 and dim % x.ndim != x.ndim - 1:
        w = torch.where(w == 0, torch.zeros_like(w), w.log().exp()) + 0 * w.sum(dim, keepdim=True)
    return w.to(x.dtype)
