"""In OLMo's manner: a normal that is cut off at a factor of its deviation, and a product with the transposed weight."""

import torch
import torch.nn as nn


def init_normal(weight, std, init_cutoff_factor=3.0):
    cutoff_value = init_cutoff_factor * std
    nn.init.trunc_normal_(weight, mean=0.0, std=std, a=-cutoff_value, b=cutoff_value)


class Linear(nn.Module):
    def __init__(self, in_features, out_features, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        init_normal(self.weight, std=(2 / (in_features + out_features)) ** 0.5)

    def forward(self, x):
        return torch.matmul(x, self.weight.t())
