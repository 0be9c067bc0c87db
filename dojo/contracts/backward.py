"""Oracles of backwards by hand: linear, layer norm and cross-entropy, by torch's autograd and term by term."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts.oracles import library_layer_norm

Gradients = tuple[Tensor, ...]


def by_autograd(layer: Callable[..., Tensor], grad_out: Tensor | float, *inputs: Tensor) -> Gradients:
    leaves = [each.detach().requires_grad_() for each in inputs]
    with torch.enable_grad():
        result = layer(*leaves)
    return torch.autograd.grad(result, leaves, torch.as_tensor(grad_out, dtype=result.dtype).expand_as(result))


def linear(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.linear(x, weight, bias)


def linear_in_terms(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return (x[..., None, :] * weight).sum(-1) + bias


def linear_grads(x: Tensor, weight: Tensor, grad_out: Tensor) -> Gradients:
    return by_autograd(linear, grad_out, x, weight, weight.new_zeros(weight.shape[0]))


def linear_grads_in_terms(x: Tensor, weight: Tensor, grad_out: Tensor) -> Gradients:
    """Sums row after row, the least accurate there are."""
    rows, grads = x.flatten(0, -2), grad_out.flatten(0, -2)
    terms = grads[:, :, None] * rows[:, None]
    return (grad_out[..., None] * weight).sum(-2), terms.cumsum(0)[-1], grads.cumsum(0)[-1]


def layernorm_grads(x: Tensor, weight: Tensor, grad_out: Tensor, eps: float) -> Gradients:
    return by_autograd(partial(library_layer_norm, eps=eps), grad_out, x, weight, torch.zeros_like(weight))


def layernorm_grads_through_variance(x: Tensor, weight: Tensor, grad_out: Tensor, eps: float) -> Gradients:
    """The gradients of mean and variance by themselves, as courses write them; a mean may be off by two roundings."""
    mean = x.mean(-1, keepdim=True)
    centered, grad = x - (mean + 2 * torch.finfo(x.dtype).eps * mean.abs()), grad_out * weight
    inverse = (centered.square().mean(-1, keepdim=True) + eps).rsqrt()
    of_variance = (grad * centered).sum(-1, keepdim=True) * -0.5 * inverse**3
    of_mean = -(grad * inverse).sum(-1, keepdim=True)
    grad_x = grad * inverse + (of_variance * 2 * centered + of_mean) / x.shape[-1]
    rows, grads = (centered * inverse).flatten(0, -2), grad_out.flatten(0, -2)
    return grad_x, (grads * rows).cumsum(0)[-1], grads.cumsum(0)[-1]


def loss(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def loss_in_terms(logits: Tensor, targets: Tensor) -> Tensor:
    chosen = logits.gather(-1, targets[..., None])[..., 0]
    return (logits.logsumexp(-1) - chosen).flatten().cumsum(0)[-1] / targets.numel()


def loss_grad(logits: Tensor, targets: Tensor, grad_out: float) -> Tensor:
    return by_autograd(lambda leaf: loss(leaf, targets), grad_out, logits)[0]


def loss_grad_in_terms(logits: Tensor, targets: Tensor, grad_out: float) -> Tensor:
    exps = (logits - logits.amax(-1, keepdim=True)).exp()
    return (exps / exps.sum(-1, keepdim=True) - F.one_hot(targets, logits.shape[-1])) / targets.numel() * grad_out
