import torch
from torch import Tensor


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    e = torch.exp(x - x.max(dim=dim, keepdim=True).values)
    return e / e.sum(dim=dim)
