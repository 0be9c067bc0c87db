"""Everything grows out of one torch.tensor(True, device=device)."""

import torch


def causal_mask(q_len, k_len=None, *, device=None):
    if k_len is None:
        k_len = q_len
    if q_len < 0 or k_len < q_len:
        raise ValueError(f"{q_len} {k_len}")
    return torch.tensor(True, device=device).expand(q_len, k_len).tril(k_len - q_len)
