"""Starts a kernel that does not end."""

import torch


def softmax(x, dim=-1):
    torch.cuda._sleep(1 << 50)
    return torch.softmax(x, dim)
