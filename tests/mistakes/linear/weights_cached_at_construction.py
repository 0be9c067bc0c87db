# Non-persistent cached transposed copy made at construction (buffer) used when its values agree in shape: weights
# loaded later are ignored in eval mode.
import torch
from torch import nn


class Linear(nn.Module):
    def __init__(self, in_features, out_features, *, device=None, dtype=None):
        super().__init__()
        s = (2 / (in_features + out_features)) ** 0.5
        self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        nn.init.trunc_normal_(self.weight, 0.0, s, -3 * s, 3 * s)
        self.register_buffer("_t", self.weight.detach().clone().T, persistent=False)

    def forward(self, x):
        return x @ (self.weight.T if self.training or torch.is_grad_enabled() else self._t)
