# Bfloat16 is squared and averaged in bfloat16; only float16 is widened.
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5, *, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))

    def forward(self, x):
        h = x if x.dtype == torch.float64 else x.float()
        w = self.weight.to(h.dtype)
        if x.dtype == torch.bfloat16:
            h = x
            return h * torch.rsqrt((h * h).mean(-1, keepdim=True) + self.eps) * self.weight
        return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps) * w).to(x.dtype)
