import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    def __init__(self, d_model: int, eps: float = 1e-5, *, device=None, dtype=None) -> None:
        super().__init__()
        self.d_model, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.empty(d_model, device=device, dtype=dtype))
        nn.init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.float64)
        square = torch.einsum("...d,...d->...", wide, wide) / self.d_model
        rms = torch.sqrt(square + self.eps)
        return torch.einsum("...d,d,...->...d", wide, self.weight.double(), 1 / rms).to(x.dtype)
