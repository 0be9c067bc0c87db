"""gather along the rows, with an error class of its own."""

import torch
from torch import nn


class TokenRange(IndexError):
    pass


class Embedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, *, device=None, dtype=None):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(num_embeddings, embedding_dim, device=device, dtype=dtype))
        nn.init.trunc_normal_(self.weight, a=-3, b=3)

    def forward(self, token_ids):
        rows, dim = self.weight.shape
        bad = (token_ids < 0).logical_or(token_ids >= rows)
        if bad.any():
            raise TokenRange(f"no row for {token_ids[bad].tolist()}")
        index = token_ids.to(torch.int64).reshape(-1, 1).expand(-1, dim)
        return self.weight.gather(0, index).reshape((*token_ids.shape, dim))
