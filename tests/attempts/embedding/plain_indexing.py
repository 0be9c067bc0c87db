"""Square brackets, after a look at the smallest and the largest id."""

import torch
from torch import nn


class Embedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, *, device=None, dtype=None):
        super().__init__()
        self.num_embeddings = num_embeddings
        weight = torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(weight, a=-3, b=3))

    def forward(self, token_ids):
        low, high = token_ids.min().item(), token_ids.max().item()
        if low < 0:
            raise IndexError(f"token id {low} is negative")
        if high >= self.num_embeddings:
            raise IndexError(f"token id {high} but only {self.num_embeddings} rows")
        return self.weight[token_ids]
