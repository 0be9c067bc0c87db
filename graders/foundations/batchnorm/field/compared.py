# robust: Errors: inputs are not looked at; half precision is not widened; 1-d and 2-d alone, as two modules have them.
"""In the manner of the BatchNorm that is written on forums to be compared with torch's: a branch for each mode."""

import torch
from torch import nn


class BatchNorm(nn.Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, *, device=None, dtype=None):
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype))

    def forward(self, input):
        dims, shape = ([0, 2, 3], (1, -1, 1, 1)) if input.dim() == 4 else ([0], (1, -1))
        if self.training:
            mean = input.mean(dims)
            var = input.var(dims, unbiased=False)
            n = input.numel() / input.size(1)
            with torch.no_grad():
                self.running_mean = self.momentum * mean + (1 - self.momentum) * self.running_mean
                self.running_var = self.momentum * var * n / (n - 1) + (1 - self.momentum) * self.running_var
        else:
            mean, var = self.running_mean, self.running_var
        input = (input - mean.view(shape)) / torch.sqrt(var.view(shape) + self.eps)
        return input * self.weight.view(shape) + self.bias.view(shape)
