import torch
from torch import Tensor


def softmax(x: Tensor, dim: int = -1) -> Tensor:
    x = x.transpose(dim, -1)
    largest = torch.full_like(x[..., 0], -torch.inf)
    total = torch.zeros_like(largest)
    i = 0
    while i < x.shape[-1]:  # the online softmax: one pass for maximum and sum
        new = torch.maximum(largest, x[..., i])
        total = total * torch.exp(largest - new) + torch.exp(x[..., i] - new)
        largest = new
    return (torch.exp(x - largest[..., None]) / total[..., None]).transpose(dim, -1)
