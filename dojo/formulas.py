"""Formulas that the graders of whole blocks and models are composed of, differentiable and of any floating dtype.

The oracles take torch's own operations and complex numbers; the spelled-out forms are accepted evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.attending import Attention

Params = dict[str, Tensor]
Norm = Callable[[Tensor, Tensor, float], Tensor]
Gated = Callable[[Params, Tensor], Tensor]
Turn = Callable[[Tensor, float], Tensor]


def under(prefix: str, params: Params) -> Params:
    """The parameters of a part, by their names within it."""
    return {name.removeprefix(prefix): value for name, value in params.items() if name.startswith(prefix)}


def library_rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Torch's own, rounded once."""
    wide = _wide(x)
    return F.rms_norm(x.to(wide), weight.shape, weight.to(wide), eps).to(x.dtype)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / √(mean(x²) + eps), rounded, times the weight."""
    wide = x.to(_wide(x))
    return (wide / (wide.square().mean(-1, keepdim=True) + eps).sqrt()).to(x.dtype) * weight


def library_swiglu(params: Params, x: Tensor) -> Tensor:
    """w2(silu(w1 x) ⊙ w3 x) with torch's own silu."""
    gate = F.silu(F.linear(x, params["w1.weight"]))
    return F.linear(gate * F.linear(x, params["w3.weight"]), params["w2.weight"])


def swiglu(params: Params, x: Tensor) -> Tensor:
    """The same by the sigmoid."""
    gate = x @ params["w1.weight"].mT
    return (gate * torch.sigmoid(gate) * (x @ params["w3.weight"].mT)) @ params["w2.weight"].mT


def turned(x: Tensor, theta: float) -> Tensor:
    """RoPE at positions 0, 1, 2, … of one head: neighbouring pairs as complex numbers, angles in float64."""
    size, wide = x.shape[-1], _wide(x)
    frequency = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = torch.outer(torch.arange(x.shape[-2], dtype=torch.float64), frequency)
    turns = torch.polar(torch.ones_like(angle), angle).to(wide.to_complex())
    pairs = torch.view_as_complex(x.to(wide).unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


def turned_by_float32_angles(x: Tensor, theta: float) -> Tensor:
    """The same in real pairs, by the least accurate of the usual ways to the angles."""
    size, wide = x.shape[-1], _wide(x)
    frequency = torch.exp(torch.arange(0, size, 2, dtype=torch.float32) * (-math.log(theta) / size))
    angle = torch.arange(x.shape[-2], dtype=torch.float32)[:, None] * frequency
    cos, sin = angle.cos().to(wide), angle.sin().to(wide)
    first, second = x.to(wide).unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([first * cos - second * sin, first * sin + second * cos], -1).flatten(-2).to(x.dtype)


def causal_self_attention(attend: Attention, turn: Turn, params: Params, x: Tensor, heads: int, theta: float) -> Tensor:
    """Grouped-query attention with RoPE, one query head at a time."""
    q, k, v = (x @ params[f"{name}_proj.weight"].mT for name in "qkv")
    size = q.shape[-1] // heads
    sharing = heads // (k.shape[-1] // size)
    mask = torch.ones(x.shape[-2], x.shape[-2], dtype=torch.bool).tril()
    results = []
    for head in range(heads):
        start = head // sharing * size
        mine, shared = slice(head * size, (head + 1) * size), slice(start, start + size)
        results.append(attend(turn(q[..., mine], theta), turn(k[..., shared], theta), v[..., shared], mask))
    return torch.cat(results, -1) @ params["o_proj.weight"].mT


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
