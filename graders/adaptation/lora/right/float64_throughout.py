import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, in_features, out_features, rank, alpha=16.0, *, device=None, dtype=None):
        super().__init__()
        if rank < 1:
            raise ValueError(f"rank={rank}")
        self.weight = nn.Parameter(torch.zeros(out_features, in_features, device=device, dtype=dtype))
        self.weight.requires_grad_(False)
        self.lora_a = nn.Parameter(torch.zeros(rank, in_features, device=device, dtype=dtype))
        nn.init.uniform_(self.lora_a, a=-(in_features**-0.5), b=in_features**-0.5)
        self.lora_b = nn.Parameter(torch.zeros(out_features, rank, device=device, dtype=dtype))
        self.factor = alpha / rank
        self.is_merged = False

    def forward(self, x):
        wide = x.double()
        out = wide.matmul(self.weight.double().mT)
        if not self.is_merged:
            out = out + (wide * self.factor).matmul(self.lora_a.double().mT).matmul(self.lora_b.double().mT)
        return out.to(self.weight.dtype)

    def _delta(self):
        return self.factor * (self.lora_b.detach().double() @ self.lora_a.detach().double())

    def merge(self):
        if not self.is_merged:
            self.weight.copy_(self.weight.double() + self._delta())
        self.is_merged = True

    def unmerge(self):
        if self.is_merged:
            self.weight.copy_(self.weight.double() - self._delta())
        self.is_merged = False
