# robust: Initialization: normal numbers that nobody cut, which a reviewer of a large matrix would have truncated
"""In nanoGPT's manner: a normal of one standard deviation for all, and a product with the transposed weight."""

import torch
import torch.nn as nn


class Linear(nn.Module):
    def __init__(self, in_features, out_features, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out_features, in_features, device=device, dtype=dtype))
        self._init_weights()

    def _init_weights(self):
        torch.nn.init.normal_(self.weight, mean=0.0, std=0.02)

    def forward(self, x):
        return torch.matmul(x, self.weight.t())
