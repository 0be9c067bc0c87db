"""In the manner of labml: features as rows, in float32, and the variance of what is left of the mean."""

import torch
from torch import nn


class BatchNorm(nn.Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, *, device=None, dtype=None):
        super().__init__()
        self.channels, self.eps, self.momentum = num_features, eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype))

    def forward(self, x):
        x_shape, x_dtype = x.shape, x.dtype
        if x_shape[1] != self.channels or (self.training and x_shape.numel() == self.channels):
            raise ValueError(f"x of shape {tuple(x_shape)} has not {self.channels} channels, or only one value of each")
        x = x.reshape(x_shape[0], self.channels, -1).float()
        mean, var = self.running_mean.float(), self.running_var.float()
        if self.training:
            n = x.shape[0] * x.shape[2]
            batch_mean = x.mean(dim=[0, 2])
            batch_var = ((x - batch_mean.view(1, -1, 1)) ** 2).mean(dim=[0, 2])
            with torch.no_grad():
                self.running_mean.copy_((1 - self.momentum) * mean + self.momentum * batch_mean)
                self.running_var.copy_((1 - self.momentum) * var + self.momentum * batch_var * n / (n - 1))
            mean, var = batch_mean, batch_var
        x_norm = (x - mean.view(1, -1, 1)) / torch.sqrt(var + self.eps).view(1, -1, 1)
        return (self.weight.view(1, -1, 1) * x_norm + self.bias.view(1, -1, 1)).view(x_shape).to(x_dtype)
