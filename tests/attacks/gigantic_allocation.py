"""Asks for 100 GiB."""

import torch


def softmax(x, dim=-1):
    return torch.ones(25 << 30)[: x.shape[dim]]
