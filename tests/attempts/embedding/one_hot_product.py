import torch
import torch.nn.functional as F
from torch import nn


class Embedding(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, device=None, dtype=None):
        super().__init__()
        table = torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype)
        self.weight = nn.Parameter(nn.init.trunc_normal_(table, 0.0, 1.0, -3.0, 3.0))

    def forward(self, token_ids):
        n = self.weight.size(0)
        if torch.any(token_ids < 0) or torch.any(token_ids >= n):
            raise IndexError("token id out of range")
        return F.one_hot(token_ids.long(), num_classes=n).to(self.weight.dtype) @ self.weight
