"""The gradient written out, and buffers replaced by new tensors."""

import torch


class _Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, mean, var, eps):
        inv = (var + eps).rsqrt()
        hat = (rows - mean) * inv
        ctx.save_for_backward(hat, inv)
        return hat

    @staticmethod
    def backward(ctx, g):
        hat, inv = ctx.saved_tensors
        g = g - g.mean(1, keepdim=True) - hat * (g * hat).mean(1, keepdim=True)
        return g * inv, None, None, None


class BatchNorm(torch.nn.Module):
    def __init__(self, num_features, eps=1e-5, momentum=0.1, *, device=None, dtype=None):
        super().__init__()
        ones = torch.ones(num_features, device=device, dtype=dtype)
        self.weight, self.bias = torch.nn.Parameter(ones), torch.nn.Parameter(ones * 0)
        self.register_buffer("running_var", ones.clone())
        self.register_buffer("running_mean", ones * 0)
        self.eps, self.m = eps, momentum

    def forward(self, x):
        shape = list(x.shape)
        if len(shape) < 2 or shape[1] != self.weight.shape[0]:
            raise ValueError(f"cannot normalise {shape} with {self.weight.shape[0]} features")
        dtype = torch.float64 if x.dtype == torch.float64 else torch.float32
        swapped = x.transpose(0, 1)
        rows = swapped.reshape(shape[1], -1).to(dtype)
        n = rows.shape[1]
        if self.training:
            if n == 1:
                raise ValueError(f"one value a feature in {shape}")
            data = rows.detach()
            mean = data.mean(1, keepdim=True)
            squares = ((data - mean) ** 2).sum(1, keepdim=True)
            old = self.running_mean.to(dtype), self.running_var.to(dtype)
            self.running_mean = (old[0] + self.m * (mean[:, 0] - old[0])).to(self.running_mean.dtype)
            self.running_var = (old[1] + self.m * (squares[:, 0] / (n - 1) - old[1])).to(self.running_var.dtype)
            hat = _Normalise.apply(rows, mean, squares / n, self.eps)
        else:
            inv = (self.running_var.to(dtype)[:, None] + self.eps).rsqrt()
            hat = (rows - self.running_mean.to(dtype)[:, None]) * inv
        out = hat * self.weight[:, None] + self.bias[:, None]
        return out.reshape(swapped.shape).transpose(0, 1).to(x.dtype)
