"""logsumexp over a stacked pair, einsum, own norm with a where, diagonal by product."""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def unit(rows: Tensor) -> Tensor:
    biggest = rows.detach().abs().amax(1, keepdim=True)
    zero = rows.detach().square().sum(1, keepdim=True).sqrt() < 1e-12
    safe = torch.where(zero, torch.ones_like(rows), rows)
    length = torch.einsum("nd,nd->n", safe, safe).sqrt()[:, None]
    return torch.where(zero, rows * 1e12, rows / length)


def clip_loss(image, text, log_scale):
    if not (image.dim() == text.dim() == 2) or image.size() != text.size():
        raise ValueError("shapes: %s %s" % (list(image.shape), list(text.shape)))
    if log_scale.dim():
        raise ValueError("log_scale: %s" % list(log_scale.shape))
    work = torch.promote_types(image.dtype, torch.float32)
    a, b, t = (z.to(work) for z in (image, text, log_scale))
    a, b = unit(a), unit(b)
    cos = torch.einsum("id,jd->ij", a, b)
    s = t.exp() * cos
    own = (a * b).sum(1) * t.exp()
    both = torch.stack([s, s.mT], dim=-1)
    top = both.detach().amax(1, keepdim=True)
    lse = (both - top).exp_().sum(1).log().add(top[:, 0])
    return (lse - own[:, None]).mean().to(image.dtype)
