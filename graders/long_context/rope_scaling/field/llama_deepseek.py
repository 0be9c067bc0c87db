"""NTK as the first post about it had it, Llama 3's own loop over frequencies, and YaRN as DeepSeek's model has it."""

import math

import torch


def precompute_freqs(dim, base, scale_factor):
    if dim % 2 or scale_factor < 1:
        raise ValueError(f"RoPE takes an even {dim=} and a {scale_factor=} of at least 1")
    return 1.0 / (base ** (torch.arange(0, dim, 2, dtype=torch.float32)[: (dim // 2)] / dim))


def ntk_frequencies(d_k, theta, factor):
    return precompute_freqs(d_k, theta * factor ** (d_k / (d_k - 2)), factor)


def llama3_frequencies(d_k, theta, factor, original_max_len, low_freq_factor=1.0, high_freq_factor=4.0):
    freqs = precompute_freqs(d_k, theta, factor)
    low_freq_wavelen = original_max_len / low_freq_factor
    high_freq_wavelen = original_max_len / high_freq_factor
    new_freqs = []
    for freq in freqs:
        wavelen = 2 * math.pi / freq
        if wavelen < high_freq_wavelen:
            new_freqs.append(freq)
        elif wavelen > low_freq_wavelen:
            new_freqs.append(freq / factor)
        else:
            smooth = (original_max_len / wavelen - low_freq_factor) / (high_freq_factor - low_freq_factor)
            new_freqs.append((1 - smooth) * freq / factor + smooth * freq)
    return torch.tensor(new_freqs, dtype=freqs.dtype, device=freqs.device)


def yarn_frequencies(d_k, theta, factor, original_max_len, beta_fast=32.0, beta_slow=1.0):
    freqs = precompute_freqs(d_k, theta, factor)

    def find_correction_dim(num_rotations):
        return d_k * math.log(original_max_len / (num_rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(find_correction_dim(beta_fast)), 0)
    high = min(math.ceil(find_correction_dim(beta_slow)), d_k - 1)
    smooth = 1 - torch.clamp((torch.arange(d_k // 2, dtype=torch.float32) - low) / (high - low), 0, 1)
    return freqs / factor * (1 - smooth) + freqs * smooth, 0.1 * math.log(factor) + 1.0
