"""As torchtune and litgpt write it: one cache of cosines and sines in a buffer, pairs stacked."""

import torch
from torch import nn


class RotaryEmbeddings(nn.Module):
    def __init__(self, d_k, max_seq_len, theta=10000.0, *, device=None, dtype=None):
        super().__init__()
        self.d_k, self.max_seq_len, self.base = d_k, max_seq_len, theta
        self.rope_init(device)

    def rope_init(self, device):
        inverse = 1.0 / (
            self.base ** (torch.arange(0, self.d_k, 2, device=device)[: (self.d_k // 2)].float() / self.d_k)
        )
        seq_idx = torch.arange(self.max_seq_len, dtype=inverse.dtype, device=device)
        idx_theta = torch.einsum("i, j -> ij", seq_idx, inverse).float()
        self.register_buffer(
            "cache", torch.stack([torch.cos(idx_theta), torch.sin(idx_theta)], dim=-1), persistent=False
        )

    def rope_cache(self, xshaped, positions):
        cache = self.cache[positions]
        if positions.dim() == 1:
            return cache.view(xshaped.size(-3), xshaped.size(-2), 2)
        return cache.view(xshaped.size(0), *[1] * (xshaped.dim() - 4), xshaped.size(-3), xshaped.size(-2), 2)


class RoPEReal(RotaryEmbeddings):
    def forward(self, x, positions):
        xshaped = x.float().reshape(*x.shape[:-1], -1, 2)
        cache = self.rope_cache(xshaped, positions)
        x_out = torch.stack(
            [
                xshaped[..., 0] * cache[..., 0] - xshaped[..., 1] * cache[..., 1],
                xshaped[..., 1] * cache[..., 0] + xshaped[..., 0] * cache[..., 1],
            ],
            -1,
        )
        return x_out.flatten(-2).type_as(x)


class RoPEComplex(RotaryEmbeddings):
    def forward(self, x, positions):
        xshaped = x.float().reshape(*x.shape[:-1], -1, 2)
        turns = torch.view_as_complex(self.rope_cache(xshaped, positions).float().contiguous())
        x_out = torch.view_as_real(torch.view_as_complex(xshaped.contiguous()) * turns)
        return x_out.flatten(-2).type_as(x)
