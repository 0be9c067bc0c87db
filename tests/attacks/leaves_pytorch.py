"""Computes in another framework."""

import scipy.special
import torch


def softmax(x, dim=-1):
    return torch.tensor(scipy.special.softmax(x.tolist(), axis=dim))
