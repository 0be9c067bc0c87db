"""The recursion of the paper's code."""

import math

import torch


def get_slopes(n):
    def get_slopes_power_of_2(n):
        start = 2 ** (-(2 ** -(math.log2(n) - 3)))
        ratio = start
        return [start * ratio**i for i in range(n)]

    if math.log2(n).is_integer():
        return get_slopes_power_of_2(n)
    closest = 2 ** math.floor(math.log2(n))
    return get_slopes_power_of_2(closest) + get_slopes(2 * closest)[0::2][: n - closest]


def alibi_slopes(num_heads):
    return torch.tensor(get_slopes(num_heads), dtype=torch.float32)


def alibi_bias(num_heads, q_len, k_len=None):
    k_len = q_len if k_len is None else k_len
    rows = torch.arange(k_len - q_len, k_len)
    relative = torch.arange(k_len)[None, :] - rows[:, None]
    return alibi_slopes(num_heads).view(-1, 1, 1) * -relative.abs().float()
