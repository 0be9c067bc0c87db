# Weights are clamped to ±3 (atoms at the ends).
import torch
from torch import nn


class Embedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_embeddings, embedding_dim, device=device, dtype=dtype).clamp(-3, 3))

    def check(self, ids):
        n = self.weight.shape[0]
        if ids.min() < 0 or ids.max() >= n:
            raise IndexError(f"ids from {ids.min().item()} to {ids.max().item()}, table of {n}")

    def forward(self, token_ids):
        self.check(token_ids)
        return self.weight[token_ids]
