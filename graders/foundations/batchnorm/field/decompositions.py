"""As PyTorch decomposes `native_batch_norm`: variance and mean of one call, in the dtype of accumulation."""

import torch
from torch import nn


class BatchNorm(nn.Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, *, device=None, dtype=None):
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.weight = nn.Parameter(torch.ones(num_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_mean", torch.zeros(num_features, device=device, dtype=dtype))
        self.register_buffer("running_var", torch.ones(num_features, device=device, dtype=dtype))

    def _update(self, running, new):
        running.copy_(self.momentum * new.detach() + (1 - self.momentum) * running.to(new.dtype))

    def forward(self, input):
        if input.size(1) != self.num_features:
            raise ValueError(f"expected {self.num_features} features, got input size {input.size()}")
        n = input.numel() // input.size(1)
        if self.training and n == 1:
            raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.size()}")
        input_acc = input.to(torch.promote_types(input.dtype, torch.float32))
        if self.training:
            reduction_dims = [0, *range(2, input.dim())]
            var, mean = torch.var_mean(input_acc, dim=reduction_dims, correction=0)
            self._update(self.running_mean, mean)
            self._update(self.running_var, var * (n / (n - 1)))
        else:
            mean, var = self.running_mean, self.running_var.to(input_acc.dtype)
        shape = (1, -1) + (1,) * (input.dim() - 2)
        output = (input_acc - mean.view(shape)) * torch.rsqrt(var + self.eps).view(shape)
        return (output * self.weight.view(shape) + self.bias.view(shape)).to(input.dtype)
