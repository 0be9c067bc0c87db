"""Slopes from a list comprehension, the bias as an outer product by einsum."""

import math

import torch


def alibi_slopes(num_heads):
    whole = 2 ** math.floor(math.log2(num_heads))
    slopes = [2 ** (-8 * (i + 1) / whole) for i in range(whole)]
    finer = [2 ** (-8 * (i + 1) / (2 * whole)) for i in range(2 * whole)]
    return torch.tensor(slopes + finer[0::2][: num_heads - whole])


def alibi_bias(num_heads, q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    q = torch.arange(k_len - q_len, k_len)
    k = torch.arange(k_len)
    distance = (q[:, None] - k[None, :]).abs().float()
    return -torch.einsum("h,qk->hqk", alibi_slopes(num_heads), distance)
