"""Gives back many numbers as a million of them each: no tensor is large, and all of them together are."""

import torch


def softmax(x, dim=-1):
    return [torch.zeros(1).expand(1 << 20) for _ in range(100)]
