import math

import torch
from torch import Tensor, nn


class Linear(nn.Module):
    def __init__(self, in_features: int, out_features: int, *, device=None, dtype=None):
        super().__init__()
        sigma = math.sqrt(2.0 / (in_features + out_features))
        weight = torch.empty((out_features, in_features), device=device, dtype=dtype)
        nn.init.trunc_normal_(weight, mean=0.0, std=sigma, a=-3.0 * sigma, b=3.0 * sigma)
        self.weight = nn.Parameter(weight)

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("...i,oi->...o", x, self.weight)
