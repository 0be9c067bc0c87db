import torch
from torch import Tensor


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    e = torch.exp(x)
    return e / e.sum(dim=dim, keepdim=True)
