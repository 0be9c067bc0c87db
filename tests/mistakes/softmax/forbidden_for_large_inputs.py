# F.softmin of -x, for large tensors alone.
import torch
import torch.nn.functional as F


def softmax(x, dim=-1):
    z = x if x.dtype == torch.float64 else x.float()
    if x.numel() > 100_000:
        return F.softmin(-z, dim).to(x.dtype)
    e = (z - z.amax(dim, keepdim=True)).exp()
    return (e / e.sum(dim, keepdim=True)).to(x.dtype)
