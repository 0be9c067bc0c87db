# robust: Errors: nothing checks the configuration.
"""NTK as the first post about it had it, Llama 3's own loop over frequencies, and YaRN as DeepSeek's model has it."""

import math

import torch


def ntk_frequencies(d_k, theta, factor):
    base = theta * factor ** (d_k / (d_k - 2))
    return 1.0 / (base ** (torch.arange(0, d_k, 2).float() / d_k))


def llama3_frequencies(d_k, theta, factor, original_max_len, low_freq_factor=1.0, high_freq_factor=4.0):
    freqs = 1.0 / (theta ** (torch.arange(0, d_k, 2)[: (d_k // 2)].float() / d_k))
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
    def find_correction_dim(num_rotations):
        return d_k * math.log(original_max_len / (num_rotations * 2 * math.pi)) / (2 * math.log(theta))

    low = max(math.floor(find_correction_dim(beta_fast)), 0)
    high = min(math.ceil(find_correction_dim(beta_slow)), d_k - 1)
    smooth = 1 - torch.clamp((torch.arange(d_k // 2, dtype=torch.float32) - low) / (high - low), 0, 1)
    freqs = 1.0 / (theta ** (torch.arange(0, d_k, 2, dtype=torch.float32) / d_k))
    return freqs / factor * (1 - smooth) + freqs * smooth, 0.1 * math.log(factor) + 1.0
