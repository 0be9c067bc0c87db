"""Each row says which keys it sees, under vmap."""

import torch


def causal_mask(q_len, k_len=None, *, device=None):
    k_len = q_len if k_len is None else k_len
    if q_len < 0 or k_len < 0 or q_len > k_len:
        raise ValueError(f"q_len={q_len}, k_len={k_len}")
    keys = torch.arange(k_len, device=device)
    if q_len == 0:
        return torch.zeros(0, k_len, dtype=torch.bool, device=device)
    return torch.vmap(lambda last: keys.le(last))(torch.arange(k_len - q_len, k_len, device=device))
