"""As modeling_rope_utils has it: inverse frequencies in float32, wavelengths and branches."""

import math

import torch


def _validate(dim, base, factor, length=1):
    if dim % 2 or base <= 1 or factor < 1 or length <= 0:
        raise ValueError(f"cannot scale rope: dim={dim}, base={base}, factor={factor}, length={length}")


def ntk_frequencies(d_k, theta, factor):
    _validate(d_k, theta, factor)
    if d_k < 4:
        raise ValueError(f"dim={d_k}")
    base = theta * factor ** (d_k / (d_k - 2))
    return 1.0 / (base ** (torch.arange(0, d_k, 2, dtype=torch.int64).to(dtype=torch.float) / d_k))


def llama3_frequencies(d_k, theta, factor, original_max_len, low_freq_factor=1.0, high_freq_factor=4.0):
    _validate(d_k, theta, factor, original_max_len)
    if not low_freq_factor < high_freq_factor:
        raise ValueError(f"low_freq_factor={low_freq_factor} high_freq_factor={high_freq_factor}")
    inv_freq = 1.0 / (theta ** (torch.arange(0, d_k, 2, dtype=torch.float) / d_k))
    wavelen = 2 * math.pi / inv_freq
    inv_freq_llama = torch.where(wavelen > original_max_len / low_freq_factor, inv_freq / factor, inv_freq)
    smooth_factor = (original_max_len / wavelen - low_freq_factor) / (high_freq_factor - low_freq_factor)
    smoothed = (1 - smooth_factor) * inv_freq_llama / factor + smooth_factor * inv_freq_llama
    high, low = original_max_len / high_freq_factor, original_max_len / low_freq_factor
    is_medium_freq = ~(wavelen < high) * ~(wavelen > low)
    return torch.where(is_medium_freq, smoothed, inv_freq_llama)


def yarn_frequencies(d_k, theta, factor, original_max_len, beta_fast=32.0, beta_slow=1.0):
    _validate(d_k, theta, factor, original_max_len)
    if beta_fast <= beta_slow:
        raise ValueError(f"beta_fast={beta_fast} beta_slow={beta_slow}")

    def find_correction_dim(num_rotations):
        return (d_k * math.log(original_max_len / (num_rotations * 2 * math.pi))) / (2 * math.log(theta))

    low = max(math.floor(find_correction_dim(beta_fast)), 0)
    high = min(math.ceil(find_correction_dim(beta_slow)), d_k - 1)
    ramp = torch.clamp((torch.arange(d_k // 2, dtype=torch.float32) - low) / (high - low), 0, 1)
    pos_freqs = theta ** (torch.arange(0, d_k, 2).to(dtype=torch.float) / d_k)
    inv_freq_mask = 1 - ramp
    inv_freq = 1.0 / (factor * pos_freqs) * (1 - inv_freq_mask) + 1.0 / pos_freqs * inv_freq_mask
    return inv_freq, 1.0 if factor <= 1 else 0.1 * math.log(factor) + 1.0
