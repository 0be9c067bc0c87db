import torch
from torch import Tensor


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    dtype, x = x.dtype, x.float() if x.dtype.itemsize < 4 else x
    x -= x.max(dim=dim, keepdim=True).values
    x = x.exp()
    return (x / x.sum(dim=dim, keepdim=True)).to(dtype)
