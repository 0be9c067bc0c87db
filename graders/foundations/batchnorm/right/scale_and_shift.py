"""Float64 throughout; the norm as one multiplication and one addition, by einsum."""

import torch
from torch import Tensor, nn


def moments(x: Tensor) -> tuple[Tensor, Tensor, int]:
    n = x.shape[0] * x.shape[2]
    mean = torch.einsum("bcp->c", x) / n
    rest = x - mean[:, None]
    return mean, torch.einsum("bcp,bcp->c", rest, rest), n


class BatchNorm(nn.Module):
    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, device=None, dtype=None):
        super().__init__()
        self.register_parameter("weight", nn.Parameter(torch.ones(num_features, device=device, dtype=dtype)))
        self.register_parameter("bias", nn.Parameter(torch.zeros(num_features, device=device, dtype=dtype)))
        for name, value in ("running_mean", 0.0), ("running_var", 1.0):
            self.register_buffer(
                name, torch.full((num_features,), value, device=device, dtype=dtype or self.bias.dtype)
            )
        self.features, self.eps, self.momentum = num_features, eps, momentum

    @torch.no_grad()
    def remember(self, mean: Tensor, var: Tensor) -> None:
        self.running_mean.data = torch.lerp(self.running_mean.double(), mean, self.momentum).to(self.running_mean.dtype)
        self.running_var.data = torch.lerp(self.running_var.double(), var, self.momentum).to(self.running_var.dtype)

    def forward(self, x: Tensor) -> Tensor:
        if not (x.dim() > 1 and x.shape[1] == self.features):
            raise ValueError(f"{tuple(x.shape)} does not fit {self.features} features")
        flat = x.double().reshape(x.shape[0], self.features, -1)
        if self.training:
            if flat.shape[0] * flat.shape[2] < 2:
                raise ValueError(f"no variance in {tuple(x.shape)}")
            mean, squares, n = moments(flat)
            self.remember(mean.detach(), squares.detach() / (n - 1))
            var = squares / n
        else:
            mean, var = self.running_mean.double(), self.running_var.double()
        scale = self.weight.double() / (var + self.eps) ** 0.5
        shift = self.bias.double() - mean * scale
        return torch.einsum("bcp,c->bcp", flat, scale).add(shift[:, None]).reshape(x.shape).to(x.dtype)
