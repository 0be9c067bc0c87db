"""einops for the mean of squares, and a division by the root."""

import einops
import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-5, *, device=None, dtype=None):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype)), eps

    def forward(self, x):
        work = x.double() if x.dtype == torch.float64 else x.float()
        power = einops.reduce(work * work, "... d -> ... 1", "mean")
        return (work / torch.sqrt(power + self.eps) * self.weight.to(work.dtype)).to(x.dtype)
