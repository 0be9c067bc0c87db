"""As Llama's own code: a complex table made by `polar`, the real form beside it; rows put in place as in torchtitan."""

import torch
from torch import nn


def precompute_freqs(dim, end, theta):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2)[: (dim // 2)].float() / dim))
    return torch.outer(torch.arange(end, dtype=torch.float32), freqs)


def reshape_for_broadcast(freqs, x):
    if freqs.ndim == 2:  # one row of positions serves the batch
        return freqs
    return freqs.view(freqs.shape[0], *[1] * (x.ndim - 3), *freqs.shape[1:])


class RoPEComplex(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        freqs = precompute_freqs(d_k, max_seq_len, theta)
        self.freqs_cis = torch.polar(torch.ones_like(freqs), freqs)

    def forward(self, x, positions):
        freqs_cis = reshape_for_broadcast(self.freqs_cis.to(x.device)[positions], x)
        x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())
        return torch.view_as_real(x_ * freqs_cis).flatten(-2).type_as(x)


class RoPEReal(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        freqs = precompute_freqs(d_k, max_seq_len, theta)
        self.freqs_cos, self.freqs_sin = torch.cos(freqs), torch.sin(freqs)

    def forward(self, x, positions):
        freqs_cos = reshape_for_broadcast(self.freqs_cos.to(x.device)[positions], x)
        freqs_sin = reshape_for_broadcast(self.freqs_sin.to(x.device)[positions], x)
        x_r, x_i = x.float().reshape((*x.shape[:-1], -1, 2)).unbind(-1)
        out_r = x_r * freqs_cos - x_i * freqs_sin
        out_i = x_r * freqs_sin + x_i * freqs_cos
        return torch.stack([out_r, out_i], dim=-1).flatten(-2).type_as(x)
