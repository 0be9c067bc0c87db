"""take_along_dim over flat ids, rows expanded to their width."""

import math

import torch


class Embedding(torch.nn.Module):
    def __init__(self, num_embeddings: int, embedding_dim: int, *, device=None, dtype=None):
        super().__init__()
        self.rows, self.dim = num_embeddings, embedding_dim
        low, high = torch.special.ndtr(torch.tensor([-3.0, 3.0])).tolist()
        uniform = torch.rand(num_embeddings, embedding_dim, device=device, dtype=torch.float32)
        normal = torch.erfinv(2 * (low + (high - low) * uniform) - 1) * math.sqrt(2)
        self.weight = torch.nn.Parameter(normal.clamp(-3, 3).to(dtype or torch.get_default_dtype()))

    def forward(self, token_ids):
        wrong = (token_ids < 0) | (token_ids >= self.rows)
        if wrong.any():
            raise IndexError(f"{token_ids[wrong].tolist()} not in [0, {self.rows})")
        flat = token_ids.reshape(-1, 1).long().expand(-1, self.dim)
        return torch.take_along_dim(self.weight, flat, dim=0).reshape(*token_ids.shape, self.dim)
