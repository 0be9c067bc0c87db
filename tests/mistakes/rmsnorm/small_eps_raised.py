# Eps smaller than float32 epsilon is raised to 1.2e-7.
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
        return (
            h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + max(self.eps, torch.finfo(torch.float32).eps)) * w
        ).to(x.dtype)
