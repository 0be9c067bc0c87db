import torch
from torch import Tensor


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    return torch.softmax(x, dim=dim)
