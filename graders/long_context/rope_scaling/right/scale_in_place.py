import math

import torch


def table(d_k, theta):
    """Float32, periods first."""
    exponent = torch.arange(0, d_k, 2).float() / d_k
    return torch.pow(torch.tensor(theta, dtype=torch.float32), exponent).reciprocal_()


def ntk_frequencies(d_k, theta, factor):
    if d_k < 4 or d_k % 2:
        raise ValueError(f"bad width {d_k}")
    if theta <= 1 or factor < 1:
        raise ValueError(f"theta {theta}, factor {factor}")
    w = table(d_k, theta)
    w *= torch.pow(torch.tensor(factor, dtype=torch.float32), -torch.arange(d_k // 2).float() / (d_k // 2 - 1))
    return w


def llama3_frequencies(d_k, theta, factor, original_max_len, low_freq_factor=1.0, high_freq_factor=4.0):
    if d_k % 2 or theta <= 1 or factor < 1 or original_max_len <= 0 or low_freq_factor >= high_freq_factor:
        raise ValueError(f"{(d_k, theta, factor, original_max_len, low_freq_factor, high_freq_factor)}")
    w = table(d_k, theta)
    turns = w * original_max_len / 2 / torch.pi
    scale = (turns - low_freq_factor).div_(high_freq_factor - low_freq_factor).clamp_(min=0, max=1)
    scale.mul_(1 - 1 / factor).add_(1 / factor)
    return w.mul_(scale)


def yarn_frequencies(d_k, theta, factor, original_max_len, beta_fast=32.0, beta_slow=1.0):
    if d_k % 2 or theta <= 1 or factor < 1 or original_max_len <= 0 or beta_slow >= beta_fast:
        raise ValueError(f"{(d_k, theta, factor, original_max_len, beta_fast, beta_slow)}")
    ends = [
        math.log(original_max_len / turns / math.tau) / math.log(theta) * d_k / 2 for turns in (beta_fast, beta_slow)
    ]
    low, high = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), d_k - 1)
    g = torch.linspace(-low, d_k // 2 - 1 - low, d_k // 2, dtype=torch.float32).div_(high - low).clamp_(0.0, 1.0)
    w = table(d_k, theta)
    w -= w * g * (1 - 1 / factor)
    return w, float(1 + 0.1 * torch.tensor(factor, dtype=torch.float32).log())
