"""The last rows of the square mask over all keys, by comparing positions."""

import torch


def causal_mask(q_len: int, k_len: int | None = None, *, device=None) -> torch.Tensor:
    total = q_len if k_len is None else k_len
    if min(q_len, total) < 0 or total < q_len:
        raise ValueError("q_len %d and k_len %s do not fit" % (q_len, total))
    i = torch.arange(total, device=device).view(-1, 1)
    j = torch.arange(total, device=device).view(1, -1)
    return (j <= i)[total - q_len :]
