"""Rows of features, var_mean and in-place updates."""

import torch
from torch import nn


class BatchNorm(nn.Module):
    running_mean: torch.Tensor
    running_var: torch.Tensor

    def __init__(self, num_features, eps=1e-5, momentum=0.1, device=None, dtype=None):
        super().__init__()
        kind = {"device": device, "dtype": dtype}
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = nn.Parameter(torch.empty(num_features, **kind))
        self.bias = nn.Parameter(torch.empty(num_features, **kind))
        self.running_mean = nn.Buffer(torch.empty(num_features, **kind))
        self.running_var = nn.Buffer(torch.empty(num_features, **kind))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1)

    def forward(self, x):
        if x.ndim < 2:
            raise ValueError(f"expected at least 2D input (got {x.ndim}D input)")
        if x.size(1) != self.num_features:
            raise ValueError(f"expected {self.num_features} features, got {x.size(1)}")
        rows = x.float().movedim(1, -1).reshape(-1, self.num_features)
        if self.training:
            if rows.size(0) < 2:
                raise ValueError(f"Expected more than 1 value per channel when training, got input size {x.shape}")
            var, mean = torch.var_mean(rows, dim=0, unbiased=False)
            n = rows.size(0)
            for buffer, batch in (self.running_mean, mean), (self.running_var, var * n / (n - 1)):
                wide = buffer.float().mul_(1 - self.momentum).add_(batch.detach(), alpha=self.momentum)
                buffer.copy_(wide)
        else:
            mean, var = self.running_mean.float(), self.running_var.float()
        out = ((rows - mean) / torch.sqrt(var + self.eps)).to(x.dtype) * self.weight + self.bias
        return out.unflatten(0, (x.size(0), *x.shape[2:])).movedim(-1, 1)
