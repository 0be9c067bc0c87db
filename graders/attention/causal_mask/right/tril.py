"""A triangle of ones with its corner moved."""

import torch


def causal_mask(q_len, k_len=None, *, device=None):
    k_len = q_len if k_len is None else k_len
    if q_len < 0 or k_len < 0 or k_len < q_len:
        raise ValueError(f"bad lengths: q_len={q_len}, k_len={k_len}")
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(diagonal=k_len - q_len)
