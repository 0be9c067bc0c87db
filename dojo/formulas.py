"""Formulas that the graders of whole blocks and models are composed of: spelled out, differentiable, of any dtype."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.attending import Attention

Params = dict[str, Tensor]


def under(prefix: str, params: Params) -> Params:
    """The parameters of a part, by their names within it."""
    return {name.removeprefix(prefix): value for name, value in params.items() if name.startswith(prefix)}


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / √(mean(x²) + eps), rounded, times the weight."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    return (wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()).to(x.dtype) * weight


def library_rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Torch's own, with the weight in float32 as well."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return F.rms_norm(x.to(wide), weight.shape, weight.to(wide), eps).to(x.dtype)


def swiglu(params: Params, x: Tensor) -> Tensor:
    """w2(silu(w1 x) ⊙ w3 x)."""
    gate = x @ params["w1.weight"].mT
    return (gate * torch.sigmoid(gate) * (x @ params["w3.weight"].mT)) @ params["w2.weight"].mT


def library_swiglu(params: Params, x: Tensor) -> Tensor:
    """The same with torch's own silu."""
    gate = F.silu(F.linear(x, params["w1.weight"]))
    return F.linear(gate * F.linear(x, params["w3.weight"]), params["w2.weight"])


def turned(x: Tensor, theta: float, precise: bool) -> Tensor:
    """RoPE at positions 0, 1, 2, …, on neighbouring pairs of one head; angles in float64 or float32."""
    wide = torch.promote_types(x.dtype, torch.float32)
    dtype = torch.float64 if precise else torch.float32
    size = x.shape[-1]
    frequency = 1 / theta ** (torch.arange(0, size, 2, dtype=dtype) / size)
    angle = torch.arange(x.shape[-2], dtype=dtype)[:, None] * frequency
    cos, sin = angle.cos().to(wide), angle.sin().to(wide)
    first, second = x.to(wide).unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([first * cos - second * sin, first * sin + second * cos], -1).flatten(-2).to(x.dtype)


def causal_self_attention(
    attend: Attention, params: Params, x: Tensor, heads: int, theta: float, precise: bool
) -> Tensor:
    """Grouped-query attention with RoPE, one query head at a time."""
    q, k, v = (x @ params[f"{name}_proj.weight"].mT for name in "qkv")
    size = q.shape[-1] // heads
    sharing = heads // (k.shape[-1] // size)
    mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()
    results = []
    for head in range(heads):
        mine, shared = slice(head * size, (head + 1) * size), head // sharing * size
        shared = slice(shared, shared + size)
        turned_q, turned_k = turned(q[..., mine], theta, precise), turned(k[..., shared], theta, precise)
        results.append(attend(turned_q, turned_k, v[..., shared], mask))
    return torch.cat(results, -1) @ params["o_proj.weight"].mT


Norm = Callable[[Tensor, Tensor, float], Tensor]
Gated = Callable[[Params, Tensor], Tensor]
