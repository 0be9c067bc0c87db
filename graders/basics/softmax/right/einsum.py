"""The sum as a product with ones, by einsum over the last axis."""

import torch


def softmax(x, dim=-1):
    if x.dim() == 0:
        return torch.ones_like(x)
    moved = x.movedim(dim, -1).double()
    e = torch.exp(moved - moved.detach().amax(-1, keepdim=True))
    z = torch.einsum("...i,i->...", e, torch.ones(e.shape[-1], dtype=e.dtype, device=e.device))
    return (e / z.unsqueeze(-1)).movedim(-1, dim).to(x.dtype)
