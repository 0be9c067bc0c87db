# Eps below float32 epsilon is raised to it (eps=1e-12 of BERT is not honoured).
import torch
from torch import nn


class LayerNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5, *, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(d_model, device=device, dtype=dtype))

    def forward(self, x):
        h = x if x.dtype == torch.float64 else x.float()
        w, b = self.weight.to(h.dtype), self.bias.to(h.dtype)
        c = h - h.mean(-1, keepdim=True)
        return (
            c * torch.rsqrt(c.pow(2).mean(-1, keepdim=True) + max(self.eps, torch.finfo(torch.float32).eps)) * w + b
        ).to(x.dtype)
