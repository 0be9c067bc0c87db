# robust: half precision is exponentiated and summed in half precision, where small weights lose their digits.
"""The numerically stable form of CS336, in the dtype of its input."""

import torch


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    x_max = torch.max(x, dim=dim, keepdim=True).values
    x_exp = torch.exp(x - x_max)
    return x_exp / torch.sum(x_exp, dim=dim, keepdim=True)
