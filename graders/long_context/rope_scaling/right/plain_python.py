from math import ceil, floor, log, pi

import torch


def clamp(x):
    return 0.0 if x < 0 else 1.0 if x > 1 else x


def complain(d_k, theta, factor, length=1):
    for wrong, what in (
        (d_k % 2 == 1, f"d_k={d_k} must be even"),
        (theta <= 1, f"theta={theta} must be above 1"),
        (factor < 1, f"factor={factor} must be 1 at least"),
        (length <= 0, f"original_max_len={length} must be positive"),
    ):
        if wrong:
            raise ValueError(what)


def ntk_frequencies(d_k, theta, factor):
    """Lists of Python's floats, one tensor at the end."""
    complain(d_k, theta, factor)
    if d_k < 4:
        raise ValueError(f"d_k={d_k} must be 4 at least")
    base = theta * pow(factor, d_k / (d_k - 2))
    return torch.tensor([base ** (-2 * i / d_k) for i in range(d_k // 2)], dtype=torch.float32)


def llama3_frequencies(d_k, theta, factor, original_max_len, low_freq_factor=1.0, high_freq_factor=4.0):
    complain(d_k, theta, factor, original_max_len)
    if high_freq_factor <= low_freq_factor:
        raise ValueError(f"factors {low_freq_factor} and {high_freq_factor} are not in order")
    result = []
    for i in range(d_k // 2):
        w = theta ** (-2 * i / d_k)
        turns = original_max_len * w / (2 * pi)
        if turns > high_freq_factor:
            result.append(w)
        elif turns < low_freq_factor:
            result.append(w / factor)
        else:
            s = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor)
            result.append(s * w + (1 - s) * w / factor)
    return torch.tensor(result, dtype=torch.float32)


def yarn_frequencies(d_k, theta, factor, original_max_len, beta_fast=32.0, beta_slow=1.0):
    complain(d_k, theta, factor, original_max_len)
    if beta_fast <= beta_slow:
        raise ValueError(f"betas {beta_fast} and {beta_slow} are not in order")
    low, high = (d_k * log(original_max_len / (2 * pi * r)) / 2 / log(theta) for r in (beta_fast, beta_slow))
    low, high = max(0, floor(low)), min(d_k - 1, ceil(high))
    plain = [theta ** (-2 * i / d_k) for i in range(d_k // 2)]
    slow = [clamp((i - low) / (high - low)) for i in range(d_k // 2)]
    mixed = [w * (1 - g) + w / factor * g for w, g in zip(plain, slow)]
    return torch.tensor(mixed, dtype=torch.float32), 1 + log(factor) / 10
