"""Formulas that the graders of whole blocks and models are composed of, differentiable and of any floating dtype.

The oracles take torch's own operations and complex numbers; the spelled-out forms are accepted evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.attending import Attention, heads_one_by_one, weights
from dojo.expect import Draw

Params = dict[str, Tensor]
Norm = Callable[[Tensor, Tensor, float], Tensor]
Gated = Callable[[Params, Tensor], Tensor]
Turn = Callable[..., Tensor]
LayerNorm = Callable[[Tensor, Tensor, Tensor, float], Tensor]
FeedForward = Callable[[Params, Tensor], Tensor]


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


def turned(x: Tensor, theta: float, positions: Tensor | None = None) -> Tensor:
    """RoPE of one head, at positions 0, 1, 2, … or others: pairs as complex numbers, angles in float64."""
    size, wide = x.shape[-1], _wide(x)
    positions = torch.arange(x.shape[-2]) if positions is None else positions
    frequency = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = positions.double()[..., None] * frequency
    turns = torch.polar(torch.ones_like(angle), angle).to(wide.to_complex())
    pairs = torch.view_as_complex(x.to(wide).unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


def turned_by_float32_angles(x: Tensor, theta: float, positions: Tensor | None = None) -> Tensor:
    """The same in real pairs, by the least accurate of the usual ways to the angles."""
    size, wide = x.shape[-1], _wide(x)
    positions = torch.arange(x.shape[-2]) if positions is None else positions
    frequency = torch.exp(torch.arange(0, size, 2, dtype=torch.float32) * (-math.log(theta) / size))
    angle = positions.float()[..., None] * frequency
    cos, sin = angle.cos().to(wide), angle.sin().to(wide)
    first, second = x.to(wide).unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([first * cos - second * sin, first * sin + second * cos], -1).flatten(-2).to(x.dtype)


def sinusoids(seq: int, size: int) -> Tensor:
    """Sines in even and cosines in odd columns: the imaginary and real parts of e^(i p / 10000^(2i/d)), in float64."""
    speed = 10000.0 ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = torch.arange(seq, dtype=torch.float64)[:, None] * speed
    return torch.view_as_real(torch.polar(torch.ones_like(angle), angle)).flip(-1).flatten(-2)


def causal_self_attention(attend: Attention, turn: Turn, params: Params, x: Tensor, heads: int, theta: float) -> Tensor:
    """Grouped-query attention with RoPE, one query head at a time."""
    q, k, v = (x @ params[f"{name}_proj.weight"].mT for name in "qkv")
    size = q.shape[-1] // heads
    sharing = heads // (k.shape[-1] // size)
    mask = causal(x.shape[-2])
    results = []
    for head in range(heads):
        start = head // sharing * size
        mine, shared = slice(head * size, (head + 1) * size), slice(start, start + size)
        results.append(attend(turn(q[..., mine], theta), turn(k[..., shared], theta), v[..., shared], mask))
    return torch.cat(results, -1) @ params["o_proj.weight"].mT


def library_layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """Torch's own, rounded once."""
    wide = _wide(x)
    return F.layer_norm(x.to(wide), weight.shape, weight.to(wide), bias.to(wide), eps).to(x.dtype)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """(x - mean) / √(variance + eps), rounded, times the weight plus the bias."""
    centred = x.to(_wide(x)) - x.to(_wide(x)).mean(-1, keepdim=True)
    return (centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt()).to(x.dtype) * weight + bias


def library_feed_forward(params: Params, x: Tensor) -> Tensor:
    """fc2(gelu(fc1 x)) with torch's own gelu."""
    hidden = F.gelu(F.linear(x, params["fc1.weight"], params["fc1.bias"]))
    return F.linear(hidden, params["fc2.weight"], params["fc2.bias"])


def feed_forward(params: Params, x: Tensor) -> Tensor:
    """The same with the error function spelled out, products and biases rounded apart."""
    hidden = x @ params["fc1.weight"].mT + params["fc1.bias"]
    wide = hidden.to(_wide(x))
    hidden = (0.5 * wide * (1 + torch.erf(wide / 2**0.5))).to(x.dtype)
    return hidden @ params["fc2.weight"].mT + params["fc2.bias"]


def post_norm_layer(attend: Attention, norm: LayerNorm, ffn: FeedForward, crossing: bool) -> Callable[..., Tensor]:
    """An encoder layer, or a decoder layer that also attends to a memory; `self_mask` is for its own attention."""
    attention = heads_one_by_one(attend)

    def layer(
        init: dict,
        params: Params,
        x: Tensor,
        self_mask: Tensor | None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        def normed(name: str, value: Tensor) -> Tensor:
            return norm(value, params[f"{name}.weight"], params[f"{name}.bias"], init.get("eps", 1e-12))

        own = attention(init, under("self_attn.", params), x, mask=self_mask)
        x = normed("self_attn_norm" if crossing else "attn_norm", x + own)
        if crossing:
            looked_up = attention(init, under("cross_attn.", params), x, context=memory, mask=memory_mask)
            x = normed("cross_attn_norm", x + looked_up)
        return normed("ffn_norm", x + ffn(under("ffn.", params), x))

    return layer


def post_norm_params(d: Draw, d_model: int, d_ff: int, crossing: bool) -> Params:
    """Random parameters of such a layer, biases and norms far from their usual zeros and ones."""
    params = {}
    for part in ("self_attn", "cross_attn") if crossing else ("self_attn",):
        params |= {f"{part}.{name}": value for name, value in weights(d, d_model, d_model, sharp=1.5).items()}
        params |= {f"{part}.{name}_proj.bias": d.normal(d_model, scale=0.5) for name in "qkvo"}
    params |= {"ffn.fc1.weight": d.normal(d_ff, d_model, scale=d_model**-0.5), "ffn.fc1.bias": d.normal(d_ff)}
    params |= {"ffn.fc2.weight": d.normal(d_model, d_ff, scale=d_ff**-0.5), "ffn.fc2.bias": d.normal(d_model)}
    for norm in ("self_attn_norm", "cross_attn_norm", "ffn_norm") if crossing else ("attn_norm", "ffn_norm"):
        params |= {f"{norm}.weight": d.uniform(d_model, low=-2, high=2), f"{norm}.bias": d.normal(d_model, scale=0.5)}
    return params


def causal(seq: int) -> Tensor:
    """Who may attend to whom: each token to itself and to what stands before it."""
    return torch.ones(seq, seq, dtype=torch.bool).tril()


def over_keys(padding: Tensor | None) -> Tensor | None:
    """A mask (batch, 1, 1, seq) from the marks of real tokens, (batch, seq)."""
    return None if padding is None else padding[:, None, None, :]


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
