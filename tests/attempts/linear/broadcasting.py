import torch
from torch import nn
from torch.nn.init import trunc_normal_


class Linear(nn.Module):
    def __init__(self, in_features, out_features, *, device=None, dtype=None):
        super().__init__()
        s = (2.0 / (in_features + out_features)) ** 0.5
        self.register_parameter(
            "weight", nn.Parameter(torch.zeros(out_features, in_features, device=device, dtype=dtype))
        )
        with torch.no_grad():
            trunc_normal_(self.weight, 0.0, s, -3 * s, 3 * s)

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        return torch.mm(flat, self.weight.t()).reshape(*x.shape[:-1], self.weight.shape[0])
