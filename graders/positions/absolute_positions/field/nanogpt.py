# robust: the table is a buffer that a cast rounds, a longer sequence is an AssertionError, an odd width one of shapes.
"""As nanoGPT's wpe, looked up for every position; sines and cosines as DistilBERT makes them, in NumPy."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn


class LearnedPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        self.block_size = max_len
        self.weight = nn.Embedding(max_len, d_model, device=device, dtype=dtype).weight
        torch.nn.init.normal_(self.weight, mean=0.0, std=0.02)

    def forward(self, x):
        t = x.size(-2)
        assert t <= self.block_size, f"Cannot forward sequence of length {t}, block size is only {self.block_size}"
        pos = torch.arange(0, t, dtype=torch.long, device=x.device)
        return x + F.embedding(pos, self.weight)


class SinusoidalPositions(nn.Module):
    def __init__(self, max_len, d_model, *, device=None, dtype=None):
        super().__init__()
        enc = np.array(
            [[pos / np.power(10000, 2 * (j // 2) / d_model) for j in range(d_model)] for pos in range(max_len)]
        )
        table = torch.empty(max_len, d_model)
        table[:, 0::2] = torch.FloatTensor(np.sin(enc[:, 0::2]))
        table[:, 1::2] = torch.FloatTensor(np.cos(enc[:, 1::2]))
        self.register_buffer("table", table, persistent=False)

    def forward(self, x):
        return x + self.table[: x.size(-2)]
