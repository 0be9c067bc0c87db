import torch


class LayerNorm(torch.nn.Module):
    def __init__(self, d_model, eps=1e-5, *, device=None, dtype=None):
        super().__init__()
        self.eps = eps
        make = lambda value: torch.nn.Parameter(torch.full((d_model,), value, device=device, dtype=dtype))
        self.weight, self.bias = make(1.0), make(0.0)

    def forward(self, x):
        h = x.double()
        mean = h.mean(-1, keepdim=True)
        second = (h * h).mean(-1, keepdim=True)  # in float64 the difference keeps its digits
        std = (second - mean * mean).clamp(min=0).add(self.eps).sqrt()
        return ((h - mean) / std * self.weight.double() + self.bias.double()).to(x.dtype)
