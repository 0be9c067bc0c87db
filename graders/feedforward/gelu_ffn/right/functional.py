"""Functional: F.linear, F.dropout and the normal distribution function."""

import torch
import torch.nn.functional as F


class FeedForward(torch.nn.Module):
    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, *, device=None, dtype=None):
        super().__init__()
        self.dropout = dropout
        self.fc1 = torch.nn.Linear(d_model, d_ff).to(device=device, dtype=dtype)
        self.fc2 = torch.nn.Linear(d_ff, d_model).to(device=device, dtype=dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = F.linear(x, self.fc1.weight, self.fc1.bias)
        hidden = hidden * torch.special.ndtr(hidden.float()).to(hidden.dtype)
        hidden = F.dropout(hidden, self.dropout, training=self.training)
        return F.linear(hidden, self.fc2.weight, self.fc2.bias)
