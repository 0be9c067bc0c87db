"""Complex numbers in float64, a table for each device; the learned one by F.embedding."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def table(max_len: int, d_model: int) -> Tensor:
    angle = torch.arange(max_len).double().outer(10000.0 ** (torch.arange(d_model // 2).double() * (-2 / d_model)))
    turn = torch.polar(torch.ones_like(angle), angle)
    return torch.stack((turn.imag, turn.real), dim=2).reshape(max_len, d_model)


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int, *, device=None, dtype=None):
        if d_model % 2 != 0:
            raise ValueError(f"{d_model} columns cannot be paired")
        super().__init__()
        self.tables = {torch.device("cpu"): table(max_len, d_model)}
        self.limit = max_len

    def forward(self, x: Tensor) -> Tensor:
        seq = x.shape[-2]
        if seq > self.limit:
            raise ValueError(f"{seq} > {self.limit}")
        if x.device not in self.tables:
            self.tables[x.device] = self.tables[torch.device("cpu")].to(x.device)
        return (x.double() + self.tables[x.device].narrow(0, 0, seq)).to(x.dtype)


class LearnedPositions(nn.Module):
    def __init__(self, max_len: int, d_model: int, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype))
        self.weight.data.normal_(0, 0.02)

    def forward(self, x: Tensor) -> Tensor:
        *_, seq, _ = x.shape
        if seq > len(self.weight):
            raise ValueError(f"{seq} > {len(self.weight)}")
        return torch.add(F.embedding(torch.arange(seq, device=x.device), self.weight), x)
