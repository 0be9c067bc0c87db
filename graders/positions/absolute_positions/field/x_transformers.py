"""In the style of x-transformers: frequencies in a buffer, sines of each call; learned rows looked up."""

import torch
import torch.nn.functional as F
from torch import einsum, nn


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        half_dim = d_model // 2
        freq_seq = torch.arange(half_dim, device=device).float() / half_dim
        self.register_buffer("inv_freq", 10000**-freq_seq, persistent=False)

    def forward(self, x):
        pos = torch.arange(x.shape[-2], device=x.device)
        emb = einsum("i, j -> i j", pos.type_as(self.inv_freq), self.inv_freq)
        emb = torch.stack((emb.sin(), emb.cos()), dim=-1).flatten(-2)
        return x + emb.type_as(x)


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        self.max_seq_len = max_len
        self.weight = nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        seq_len = x.shape[-2]
        assert seq_len <= self.max_seq_len, f"a sequence of {seq_len} is longer than {self.max_seq_len}"
        pos = torch.arange(seq_len, device=x.device)
        return x + F.embedding(pos, self.weight)
