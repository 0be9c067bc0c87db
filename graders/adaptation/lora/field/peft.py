"""As peft has it: half precision is multiplied out in float32 and merged safely, into data that lie elsewhere."""

import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, in_features, out_features, rank, alpha=16.0, *, device=None, dtype=None):
        super().__init__()
        if rank <= 0:
            raise ValueError(f"`r` should be a positive integer value but the value passed is {rank}")
        kind = {"device": device, "dtype": dtype}
        self.weight = nn.Parameter(torch.randn(out_features, in_features, **kind), requires_grad=False)
        self.lora_a = nn.Parameter(torch.randn(rank, in_features, **kind) / rank)
        self.lora_b = nn.Parameter(torch.zeros(out_features, rank, **kind))
        self.scaling, self.merged = alpha / rank, False

    def get_delta_weight(self):
        return (self.lora_b.float() @ self.lora_a.float() * self.scaling).to(self.lora_b.dtype).detach()

    def merge(self):
        if not self.merged:
            orig_weights = self.weight.data.clone()
            orig_weights += self.get_delta_weight()
            if not torch.isfinite(orig_weights).all():
                raise ValueError("NaNs detected in the merged weights")
            self.weight.data = orig_weights
            self.merged = True

    def unmerge(self):
        if self.merged:
            self.weight.data -= self.get_delta_weight()
            self.merged = False

    def forward(self, x):
        result = nn.functional.linear(x, self.weight)
        if not self.merged:
            result = result + nn.functional.linear(nn.functional.linear(x, self.lora_a), self.lora_b) * self.scaling
        return result
