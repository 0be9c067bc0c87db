"""As MPT: slopes of the next power of two, its odd ones first, and a full bias of two ranges that end at 0."""

import math

import torch


def alibi_slopes(num_heads, alibi_bias_max=8):
    next_power = 2 ** math.ceil(math.log2(num_heads))
    m = torch.arange(1, next_power + 1, dtype=torch.float32)
    m = m.mul(alibi_bias_max / next_power)
    slopes = 1.0 / torch.pow(2, m)
    if next_power != num_heads:
        slopes = torch.concat([slopes[1::2], slopes[::2]])[:num_heads]
    return slopes


def alibi_bias(num_heads, q_len, k_len=None):
    k_len = k_len or q_len
    bias = torch.arange(1 - k_len, 1, dtype=torch.int32).view(1, 1, k_len)
    bias = bias - torch.arange(1 - q_len, 1, dtype=torch.int32).view(1, q_len, 1)
    bias = bias.abs().mul(-1)
    return bias * alibi_slopes(num_heads).view(num_heads, 1, 1)
