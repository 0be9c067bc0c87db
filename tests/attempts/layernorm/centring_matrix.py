import torch
from torch import Tensor, nn


class LayerNorm(nn.Module):
    """Subtracts the mean twice: the second time takes what rounding left of it."""

    def __init__(self, d_model: int, eps: float = 1e-5, *, device=None, dtype=None):
        super().__init__()
        self.size, self.eps = d_model, eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(d_model, device=device, dtype=dtype))

    def forward(self, x: Tensor) -> Tensor:
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        rest = wide - wide.sum(-1, keepdim=True) / self.size
        rest = rest - rest.mean(-1, keepdim=True)
        variance = torch.einsum("...d,...d->...", rest, rest).unsqueeze(-1) / self.size
        return torch.addcmul(
            self.bias.to(wide.dtype), rest * (variance + self.eps).pow(-0.5), self.weight.to(wide.dtype)
        ).to(x.dtype)
