# robust: Large means: mean of squares less squared mean; Errors: a batch of one row is nan.
"""In the manner of labml and SyncBatchNorm: features as rows, sums of values and squares."""

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

    def forward(self, x):
        x_shape = x.shape
        x = x.reshape(x_shape[0], x_shape[1], -1)
        if self.training:
            n = x.shape[0] * x.shape[2]
            mean = x.mean(dim=[0, 2])
            var = (x**2).mean(dim=[0, 2]) - mean**2
            self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean.detach()
            self.running_var = (1 - self.momentum) * self.running_var + self.momentum * var.detach() * n / (n - 1)
        else:
            mean, var = self.running_mean, self.running_var
        x_norm = (x - mean.view(1, -1, 1)) / torch.sqrt(var + self.eps).view(1, -1, 1)
        return (self.weight.view(1, -1, 1) * x_norm + self.bias.view(1, -1, 1)).view(x_shape)
