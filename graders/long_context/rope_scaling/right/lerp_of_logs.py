import math

import torch


class Rope:
    """Frequencies as exponentials of logs, in float64; recipes are methods."""

    def __init__(self, d_k, theta, factor, length=1):
        if d_k % 2 != 0:
            raise ValueError("d_k = %d" % d_k)
        if not theta > 1:
            raise ValueError(f"theta = {theta}")
        if not factor >= 1:
            raise ValueError(f"factor = {factor}")
        if not length > 0:
            raise ValueError(f"original_max_len = {length}")
        self.d_k, self.theta, self.factor, self.length = d_k, theta, factor, length

    def w(self, theta=None):
        step = -2 * math.log(theta or self.theta) / self.d_k
        return torch.exp(torch.arange(self.d_k // 2, dtype=torch.float64) * step)

    def slowed(self, share):
        return torch.lerp(self.w(), self.w() / self.factor, share).to(torch.float32)

    def dim(self, turns):
        return self.d_k / 2 * math.log(self.length / (2 * math.pi * turns), self.theta)


def ntk_frequencies(d_k, theta, factor):
    rope = Rope(d_k, theta, factor)
    if d_k <= 2:
        raise ValueError("d_k = %d" % d_k)
    return rope.w(theta * math.exp(math.log(factor) * d_k / (d_k - 2))).to(torch.float32)


def llama3_frequencies(d_k, theta, factor, original_max_len, low_freq_factor=1.0, high_freq_factor=4.0):
    rope = Rope(d_k, theta, factor, original_max_len)
    if low_freq_factor >= high_freq_factor:
        raise ValueError(f"{low_freq_factor} >= {high_freq_factor}")
    turns = rope.w() * (original_max_len / math.tau)
    return rope.slowed(((high_freq_factor - turns) / (high_freq_factor - low_freq_factor)).clip(0, 1))


def yarn_frequencies(d_k, theta, factor, original_max_len, beta_fast=32.0, beta_slow=1.0):
    rope = Rope(d_k, theta, factor, original_max_len)
    if beta_slow >= beta_fast:
        raise ValueError(f"{beta_slow} >= {beta_fast}")
    low, high = max(math.floor(rope.dim(beta_fast)), 0), min(math.ceil(rope.dim(beta_slow)), d_k - 1)
    pair = torch.arange(d_k // 2, dtype=torch.float64)
    return rope.slowed(pair.sub(low).div(high - low).clamp_(0, 1)), 0.1 * math.log(factor) + 1.0
