"""A small class that knows its heads; distances by cdist-like broadcasting in float64."""

import torch


class Slopes:
    def __init__(self, heads):
        self.heads = heads
        self.power = 1 << (heads.bit_length() - 1)

    @staticmethod
    def geometric(count):
        return torch.pow(2.0, -8.0 / count * torch.arange(1, count + 1, dtype=torch.float64))

    def tensor(self):
        rest = self.geometric(2 * self.power)[::2][: self.heads - self.power]
        return torch.cat([self.geometric(self.power), rest]).float()


def alibi_slopes(num_heads):
    return Slopes(num_heads).tensor()


def alibi_bias(num_heads, q_len, k_len=None):
    if k_len is None:
        k_len = q_len
    i = torch.arange(q_len).view(1, -1, 1) + (k_len - q_len)
    j = torch.arange(k_len).view(1, 1, -1)
    return alibi_slopes(num_heads).view(-1, 1, 1) * -torch.abs(i - j)
