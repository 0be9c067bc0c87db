"""exp(x - m - log Σ), without a division."""

import torch


def softmax(x, dim=-1):
    wide = x if x.dtype == torch.float64 else x.to(torch.float32)
    m = torch.amax(wide, dim, True)
    shifted = wide - m
    log_z = torch.log(torch.sum(torch.exp(shifted), dim, True))
    return torch.exp(shifted - log_z).to(x.dtype)
