"""As PyTorch decomposes `native_layer_norm`: variance and mean of one call, in the dtype of accumulation."""

import torch
import torch.nn as nn


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(d_model, device=device, dtype=dtype))
        self.eps = eps

    def forward(self, x):
        a = x.to(torch.promote_types(x.dtype, torch.float32))
        biased_var, mean = torch.var_mean(a, dim=-1, unbiased=False, keepdim=True)
        rstd = torch.rsqrt(biased_var + self.eps)
        return ((a - mean) * rstd * self.weight + self.bias).to(x.dtype)
