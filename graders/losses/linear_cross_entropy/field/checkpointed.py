# robust: Half precision: autograd adds up weight's gradient over chunks in the dtype of the weight.
"""The short form that training code has: each chunk's loss under torch's checkpoint."""

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


def chunk_loss(hidden, weight, targets, ignore_index):
    logits = F.linear(hidden, weight).float()
    return F.cross_entropy(logits, targets, ignore_index=ignore_index, reduction="sum")


def linear_cross_entropy(hidden, weight, targets, ignore_index=-100, chunk_size=1024):
    dtype = hidden.dtype
    hidden, targets = hidden.reshape(-1, hidden.size(-1)), targets.reshape(-1)
    total_loss = 0.0
    for h, t in zip(hidden.split(chunk_size), targets.split(chunk_size)):
        total_loss = total_loss + checkpoint(chunk_loss, h, weight, t, ignore_index, use_reentrant=False)
    return (total_loss / (targets != ignore_index).sum()).to(dtype)
