import torch
from torch import Tensor, nn


class Embedding(nn.Module):
    def __init__(self, num_embeddings: int, embedding_dim: int, *, device=None, dtype=None):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim, device=device, dtype=dtype))
        torch.nn.init.trunc_normal_(self.weight, mean=0.0, std=1.0, a=-3.0, b=3.0)

    def forward(self, token_ids: Tensor) -> Tensor:
        flat = token_ids.reshape(-1)
        if flat.numel() and (flat.min() < 0 or flat.max() >= self.num_embeddings):
            raise IndexError(f"ids must be in [0, {self.num_embeddings}), got {flat.min()} .. {flat.max()}")
        return torch.index_select(self.weight, 0, flat).view(*token_ids.shape, -1)
