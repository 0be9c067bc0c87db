# The root is rounded to half precision, and the division is done in it.
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
        root = torch.sqrt(h.pow(2).mean(-1, keepdim=True) + self.eps).to(x.dtype)
        return ((x / root) * w.to(x.dtype)).to(x.dtype)
