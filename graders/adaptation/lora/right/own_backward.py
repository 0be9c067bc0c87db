import torch
from torch import nn


class _Adapted(torch.autograd.Function):
    """Both products and their way back by hand, over rows."""

    @staticmethod
    def forward(ctx, x, w, a, b, s):
        rows = x.reshape(-1, x.shape[-1])
        narrow = rows @ a.t()
        ctx.save_for_backward(rows, narrow, w, a, b)
        ctx.s, ctx.shape = s, x.shape
        return (rows @ w.t() + s * (narrow @ b.t())).reshape(*x.shape[:-1], w.shape[0])

    @staticmethod
    def backward(ctx, grad):
        rows, narrow, w, a, b = ctx.saved_tensors
        g = grad.reshape(-1, grad.shape[-1])
        back = ctx.s * (g @ b)
        return (g @ w + back @ a).reshape(ctx.shape), None, back.t() @ rows, ctx.s * (g.t() @ narrow), None


class LoRALinear(nn.Module):
    def __init__(self, in_features, out_features, rank, alpha=16.0, *, device=None, dtype=None):
        super().__init__()
        if rank < 1:
            raise ValueError(f"cannot adapt with rank {rank}")
        like = torch.empty(0, device=device, dtype=dtype)
        self.weight = nn.Parameter(like.new_zeros(out_features, in_features).normal_(), requires_grad=False)
        self.lora_a = nn.Parameter(like.new_empty(rank, in_features).uniform_(-1, 1) / in_features**0.5)
        self.lora_b = nn.Parameter(like.new_zeros(out_features, rank))
        self.s, self.times = alpha / rank, 0

    def forward(self, x):
        if self.times:
            return nn.functional.linear(x, self.weight)
        return _Adapted.apply(x, self.weight, self.lora_a, self.lora_b, self.s)

    @torch.no_grad()
    def merge(self):
        self.weight += (1 - self.times) * self.s * (self.lora_b @ self.lora_a)
        self.times = 1

    @torch.no_grad()
    def unmerge(self):
        self.weight -= self.times * self.s * (self.lora_b @ self.lora_a)
        self.times = 0
