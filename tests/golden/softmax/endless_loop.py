import torch
from torch import Tensor


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    x = x.transpose(dim, -1)
    largest, steps = torch.zeros_like(x[..., :1]), 0
    while (x - largest).amax() > 0:  # the maximum, step by step
        steps += 1
    weights = torch.exp(x - largest)
    return (weights / weights.sum(dim=-1, keepdim=True)).transpose(dim, -1)
