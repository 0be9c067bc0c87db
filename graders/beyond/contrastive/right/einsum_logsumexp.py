import torch
from torch import Tensor


def directions(x: Tensor) -> Tensor:
    x = x.double()
    length = torch.linalg.norm(x, dim=1, keepdim=True)
    return x / torch.maximum(length, torch.full_like(length, 1e-12))


def clip_loss(image: Tensor, text: Tensor, log_scale: Tensor) -> Tensor:
    """Float64 throughout; logsumexp less the diagonal."""
    if image.dim() != 2 or image.shape != text.shape or log_scale.shape != ():
        raise ValueError(f"{tuple(image.shape)} {tuple(text.shape)} {tuple(log_scale.shape)}")
    s = torch.einsum("id,jd->ij", directions(image), directions(text)) * torch.exp(log_scale.double())
    pairs = torch.einsum("ii->i", s)
    rows, columns = s.logsumexp(dim=1) - pairs, s.logsumexp(dim=0) - pairs
    return (0.5 * (rows + columns)).mean().to(image.dtype)
