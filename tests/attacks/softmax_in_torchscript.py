"""Hides what is not allowed in TorchScript."""

import torch


@torch.jit.script
def hidden(x: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.softmax(x, dim)


def softmax(x, dim=-1):
    return hidden(x, dim)
