import torch
from torch import nn


class LoRALinear(nn.Module):
    """One index per axis; the way back is left to einsum."""

    def __init__(self, in_features, out_features, rank, alpha=16.0, *, device=None, dtype=None):
        super().__init__()
        if not rank >= 1:
            raise ValueError("rank must be at least 1, got %d" % rank)
        kw = {"device": device, "dtype": dtype}
        self.rank, self.alpha = rank, alpha
        self.register_parameter(
            "lora_a", nn.Parameter((torch.rand(rank, in_features, **kw) * 2 - 1) * in_features**-0.5)
        )
        self.register_parameter("lora_b", nn.Parameter(torch.zeros((out_features, rank), **kw)))
        self.weight = nn.Parameter(torch.randn(out_features, in_features, **kw), False)
        self.state = "apart"

    def forward(self, x):
        y = torch.einsum("...i,oi->...o", x, self.weight)
        if self.state == "apart":
            z = torch.einsum("...i,ri->...r", x, self.lora_a) * (self.alpha / self.rank)
            y = y + torch.einsum("...r,or->...o", z, self.lora_b)
        return y

    def merge(self):
        if self.state == "apart":
            with torch.no_grad():
                torch.addmm(self.weight, self.lora_b, self.lora_a, alpha=self.alpha / self.rank, out=self.weight)
            self.state = "merged"

    def unmerge(self):
        if self.state == "merged":
            with torch.no_grad():
                self.weight.copy_(torch.addmm(self.weight, self.lora_b, self.lora_a, alpha=-self.alpha / self.rank))
            self.state = "apart"
