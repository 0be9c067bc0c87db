# robust: half precision is reduced in half precision, and float32 weights make the result float32.
"""In the manner of the annotated transformer, but with the biased variance and eps inside the root."""

import torch
import torch.nn as nn


class LayerNorm(nn.Module):
    "Construct a layernorm module"

    def __init__(self, d_model, eps=1e-5, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(d_model, device=device, dtype=dtype))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, unbiased=False, keepdim=True)
        return self.weight * (x - mean) / torch.sqrt(var + self.eps) + self.bias
