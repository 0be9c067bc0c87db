"""As modeling_rope_utils has it: inverse frequencies, wavelengths, and an extrapolation factor for YaRN."""

import math

import torch


def validate_rope(dim, factor):
    if dim % 2 != 0:
        raise ValueError(f"`head_dim` must be even to rotate pairs, got {dim}")
    if factor < 1.0:
        raise ValueError(f"`rope_parameters`'s factor field must be a float >= 1, got {factor}")


def inv_freq(base, dim):
    return 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.int64).to(dtype=torch.float) / dim))


def ntk_frequencies(d_k, theta, factor):
    validate_rope(d_k, factor)
    return inv_freq(theta * factor ** (d_k / (d_k - 2)), d_k)


def llama3_frequencies(d_k, theta, factor, original_max_len, low_freq_factor=1.0, high_freq_factor=4.0):
    validate_rope(d_k, factor)
    freqs = inv_freq(theta, d_k)
    wavelen = 2 * math.pi / freqs
    low_freq_wavelen, high_freq_wavelen = original_max_len / low_freq_factor, original_max_len / high_freq_factor
    inv_freq_llama = torch.where(wavelen > low_freq_wavelen, freqs / factor, freqs)
    smooth_factor = (original_max_len / wavelen - low_freq_factor) / (high_freq_factor - low_freq_factor)
    smoothed = (1 - smooth_factor) * inv_freq_llama / factor + smooth_factor * inv_freq_llama
    is_medium_freq = ~(wavelen < high_freq_wavelen) * ~(wavelen > low_freq_wavelen)
    return torch.where(is_medium_freq, smoothed, inv_freq_llama)


def yarn_frequencies(d_k, theta, factor, original_max_len, beta_fast=32.0, beta_slow=1.0):
    validate_rope(d_k, factor)

    def find_correction_dim(num_rotations):
        return (d_k * math.log(original_max_len / (num_rotations * 2 * math.pi))) / (2 * math.log(theta))

    low = max(math.floor(find_correction_dim(beta_fast)), 0)
    high = min(math.ceil(find_correction_dim(beta_slow)), d_k - 1)
    ramp = torch.clamp((torch.arange(d_k // 2, dtype=torch.float32) - low) / (high - low), 0, 1)
    extrapolation = 1 - ramp
    freqs = inv_freq(theta, d_k)
    return freqs / factor * (1 - extrapolation) + freqs * extrapolation, 1.0 if factor <= 1 else 0.1 * math.log(
        factor
    ) + 1
