"""As Microsoft's loralib has it: a subclass of nn.Linear, A and B as bare parameters, merged through .data."""

import math

import torch.nn.functional as F
from torch import nn


class LoRALinear(nn.Linear):
    def __init__(self, in_features, out_features, rank, alpha=16.0, *, device=None, dtype=None):
        nn.Linear.__init__(self, in_features, out_features, bias=False, device=device, dtype=dtype)
        if rank <= 0:
            raise ValueError(f"r has to be positive: {rank}")
        self.lora_a = nn.Parameter(self.weight.new_zeros((rank, in_features)))
        self.lora_b = nn.Parameter(self.weight.new_zeros((out_features, rank)))
        self.scaling, self.merged = alpha / rank, False
        self.weight.requires_grad = False
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def merge(self, mode=True):
        if mode != self.merged:
            self.weight.data += (self.lora_b @ self.lora_a) * self.scaling * (1 if mode else -1)
            self.merged = mode

    def unmerge(self):
        self.merge(False)

    def forward(self, x):
        result = F.linear(x, self.weight)
        if not self.merged:
            result += (x @ self.lora_a.transpose(0, 1) @ self.lora_b.transpose(0, 1)) * self.scaling
        return result
