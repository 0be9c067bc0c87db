"""What is not above the diagonal."""

import torch


def causal_mask(q_len, k_len=None, *, device=None):
    if q_len < 0:
        raise ValueError(f"q_len must not be negative, got {q_len}")
    if k_len is None:
        k_len = q_len
    if k_len < q_len:
        raise ValueError(f"k_len ({k_len}) must be at least q_len ({q_len})")
    future = torch.triu(torch.full((q_len, k_len), True, device=device), diagonal=1 + k_len - q_len)
    return ~future
