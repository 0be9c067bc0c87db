"""As peft and loralib write it: the adapter's delta in a method, float32 where the weights are half on the CPU."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class LoRALinear(nn.Linear):
    def __init__(self, in_features, out_features, rank, alpha=16.0, *, device=None, dtype=None):
        if rank <= 0:
            raise ValueError(f"`rank` should be a positive integer value but the value passed is {rank}")
        super().__init__(in_features, out_features, bias=False, device=device, dtype=dtype)
        self.weight.requires_grad = False
        self.r, self.scaling = rank, alpha / rank
        self.lora_a = nn.Parameter(self.weight.new_empty(rank, in_features))
        self.lora_b = nn.Parameter(self.weight.new_empty(out_features, rank))
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))
        nn.init.zeros_(self.lora_b)
        self.merged = False

    def get_delta_weight(self):
        a, b = self.lora_a, self.lora_b
        if self.weight.dtype in (torch.float16, torch.bfloat16):
            a, b = a.float(), b.float()
        return ((b @ a) * self.scaling).to(self.weight.dtype)

    def merge(self):
        if self.merged:
            return
        self.weight.data += self.get_delta_weight()
        self.merged = True

    def unmerge(self):
        if not self.merged:
            return
        self.weight.data -= self.get_delta_weight()
        self.merged = False

    def forward(self, x):
        result = super().forward(x)
        if not self.merged:
            result = result + F.linear(F.linear(x, self.lora_a), self.lora_b) * self.scaling
        return result
