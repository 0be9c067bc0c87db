"""Oracles and accepted evaluations: attention one head at a time, norms, rotations, feed-forward layers, whole layers.

All are differentiable and of any floating dtype. The oracles take torch's own operations and complex numbers; the
spelled-out forms are accepted evaluations.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts.checks.inputs import Draw

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]
Init = dict[str, Any]  # the constructor's arguments
Params = dict[str, Tensor]
Norm = Callable[[Tensor, Tensor, float], Tensor]
Gated = Callable[[Params, Tensor], Tensor]
Rope = Callable[..., Tensor]
LayerNorm = Callable[[Tensor, Tensor, Tensor, float], Tensor]
FeedForward = Callable[[Params, Tensor], Tensor]


def library(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Torch's own attention; a query that may attend to nothing gets zeros."""
    # With an axis of heads it takes the fused kernel, whose gradients round otherwise than those of its parts.
    q, k, v = (t.unsqueeze(-3) for t in (q, k, v))
    mask = mask if mask is None or mask.dim() == 2 else mask.unsqueeze(-3)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask).squeeze(-3)


def stage_by_stage(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Every product rounded to the dtype of the inputs, softmax alone in float32."""
    scores = q @ k.mT / q.shape[-1] ** 0.5
    weights = _weights(scores.to(torch.promote_types(scores.dtype, torch.float32)), mask)
    return weights.to(v.dtype) @ v


def normalised_last(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """The values weighted by exponentials, and divided by their sum afterwards."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q / q.shape[-1] ** 0.5).to(wide) @ k.to(wide).mT
    exps = _weights(scores, mask, lambda scores: (scores - scores.amax(-1, keepdim=True).detach()).exp())
    slip = max(4 * torch.finfo(wide).eps, torch.finfo(q.dtype).eps)
    return (_Weighted.apply(exps, v.to(wide), slip) / exps.sum(-1, keepdim=True).clamp_min(1e-30)).to(v.dtype)


class _Weighted(torch.autograd.Function):
    """`exps @ v`, whose gradient for `exps` is off by more than its terms may round.

    Where one weight is nearly 1, the gradients that reach a score through numerator and denominator cancel but for
    their roundings. Those may by chance be the same in every way of computing, but need not be in the attempt's. In
    half precision the fused kernel takes the result for its way back as it was rounded.
    """

    @staticmethod
    def forward(ctx: Any, exps: Tensor, v: Tensor, slip: float) -> Tensor:
        ctx.save_for_backward(exps, v)
        ctx.slip = slip
        return exps @ v

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
        exps, v = ctx.saved_tensors
        return grad @ v.mT + ctx.slip * (grad.abs() @ v.mT.abs()), exps.mT @ grad, None


def term_by_term(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Products by broadcasting, each sum over an axis of its own."""
    wide = torch.promote_types(q.dtype, torch.float32)
    scores = (q[..., :, None, :].to(wide) * k[..., None, :, :].to(wide)).sum(-1) * q.shape[-1] ** -0.5
    return (_weights(scores, mask)[..., None] * v[..., None, :, :].to(wide)).sum(-2).to(v.dtype)


def by_logsumexp(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Exponentials of the scores less their logsumexp.

    It rounds as a score does, and scores may be large: the weights then do not quite sum to 1, and where one is nearly
    1 the parts of its gradient no longer cancel. Here it is off by as much as it may be.
    """
    wide = torch.promote_types(q.dtype, torch.float32)

    def less_their_logsumexp(scores: Tensor) -> Tensor:
        total = scores.logsumexp(-1, keepdim=True)
        return (scores - (total + torch.finfo(wide).eps * total.detach().abs())).exp()

    scores = q.to(wide) @ k.to(wide).mT * q.shape[-1] ** -0.5
    return (_weights(scores, mask, less_their_logsumexp) @ v.to(wide)).to(v.dtype)


def _softmax(scores: Tensor) -> Tensor:
    return torch.softmax(scores, -1)


def _weights(scores: Tensor, mask: Tensor | None, weigh: Callable[[Tensor], Tensor] = _softmax) -> Tensor:
    """What `weigh` makes of the scores; keys behind the mask have no part in it."""
    if mask is None:
        return weigh(scores)
    return weigh(scores.masked_fill(~mask, torch.finfo(scores.dtype).min)).masked_fill(~mask, 0.0)


WAYS: tuple[Attention, ...] = (stage_by_stage, library, normalised_last, term_by_term, by_logsumexp)


def heads_one_by_one(attend: Attention) -> Callable[..., Tensor]:
    """Multi-head attention in which each query head finds its own rows, and those of the key head that it shares."""

    def formula(
        init: Init, params: Params, x: Tensor, context: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        source = x if context is None else context
        q, k, v = (
            project(params, name, each) for name, each in (("q_proj", x), ("k_proj", source), ("v_proj", source))
        )
        heads, size = init["num_heads"], q.shape[-1] // init["num_heads"]
        sharing = heads // (k.shape[-1] // size)
        everyone = None if mask is None else mask.expand(x.shape[0], heads, x.shape[1], source.shape[1])
        results = []
        for head in range(heads):
            mine, shared = head * size, head // sharing * size
            allowed = None if everyone is None else everyone[:, head]
            own = (q[..., mine : mine + size], k[..., shared : shared + size], v[..., shared : shared + size])
            results.append(attend(*own, allowed))
        return project(params, "o_proj", torch.cat(results, -1))

    return formula


def project(params: Params, name: str, x: Tensor) -> Tensor:
    """A linear layer of this name, with its bias where it has one."""
    return F.linear(x, params[f"{name}.weight"], params.get(f"{name}.bias"))


def weights(d: Draw, d_model: int, kv_dim: int, logit_scale: float = 2.0) -> Params:
    """Random projections; scores of normal inputs have a standard deviation of about `logit_scale` squared."""
    into = d_model**-0.5
    return {
        "q_proj.weight": d.normal(d_model, d_model, scale=logit_scale * into),
        "k_proj.weight": d.normal(kv_dim, d_model, scale=logit_scale * into),
        "v_proj.weight": d.normal(kv_dim, d_model, scale=into),
        "o_proj.weight": d.normal(d_model, d_model, scale=into),
    }


def sub_params(prefix: str, params: Params) -> Params:
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


def apply_rope(x: Tensor, theta: float, positions: Tensor | None = None) -> Tensor:
    """RoPE of one head, at positions 0, 1, 2, … or others: pairs as complex numbers, angles in float64."""
    size, wide = x.shape[-1], _wide(x)
    positions = torch.arange(x.shape[-2]) if positions is None else positions
    frequency = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    angle = positions.double()[..., None] * frequency
    turns = torch.polar(torch.ones_like(angle), angle).to(wide.to_complex())
    pairs = torch.view_as_complex(x.to(wide).unflatten(-1, (-1, 2)).contiguous())
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


def apply_rope_by_float32_angles(x: Tensor, theta: float, positions: Tensor | None = None) -> Tensor:
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


def sinusoids_by_float32_angles(seq: int, size: int) -> Tensor:
    """The same by the least accurate of the usual ways to the angles."""
    speed = torch.exp(torch.arange(0, size, 2).float() * (-math.log(10000.0) / size))
    angle = torch.arange(seq).float()[:, None] * speed
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)


def drawn(weights: list[float], uniform: float) -> int:
    """The token that a uniform number in [0, 1) draws by these weights."""
    total, before = math.fsum(weights), 0.0
    for token, weight in enumerate(weights):
        before += weight / total
        if before > uniform:
            return token
    return max(token for token, weight in enumerate(weights) if weight > 0)


def causal_self_attention(attend: Attention, rope: Rope, params: Params, x: Tensor, heads: int, theta: float) -> Tensor:
    """Grouped-query attention with RoPE, one query head at a time."""
    q, k, v = (x @ params[f"{name}_proj.weight"].mT for name in "qkv")
    size = q.shape[-1] // heads
    sharing = heads // (k.shape[-1] // size)
    mask = causal(x.shape[-2])
    results = []
    for head in range(heads):
        start = head // sharing * size
        mine, shared = slice(head * size, (head + 1) * size), slice(start, start + size)
        results.append(attend(rope(q[..., mine], theta), rope(k[..., shared], theta), v[..., shared], mask))
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


# Attention, norm and feed-forward layer of a `post_norm_layer`, the first of torch's own.
POST_NORM_WAYS: tuple[tuple[Attention, LayerNorm, FeedForward], ...] = (
    (library, library_layer_norm, library_feed_forward),
    (stage_by_stage, layer_norm, feed_forward),
    (normalised_last, layer_norm, library_feed_forward),
)


def post_norm_layer(
    attend: Attention, norm: LayerNorm, ffn: FeedForward, cross_attention: bool
) -> Callable[..., Tensor]:
    """An encoder layer, or a decoder layer that also attends to a memory; `self_mask` is for its own attention."""
    attention = heads_one_by_one(attend)

    def layer(
        init: Init,
        params: Params,
        x: Tensor,
        self_mask: Tensor | None,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        def normed(name: str, value: Tensor) -> Tensor:
            return norm(value, params[f"{name}.weight"], params[f"{name}.bias"], init.get("eps", 1e-12))

        own = attention(init, sub_params("self_attn.", params), x, mask=self_mask)
        x = normed("self_attn_norm" if cross_attention else "attn_norm", x + own)
        if cross_attention:
            looked_up = attention(init, sub_params("cross_attn.", params), x, context=memory, mask=memory_mask)
            x = normed("cross_attn_norm", x + looked_up)
        return normed("ffn_norm", x + ffn(sub_params("ffn.", params), x))

    return layer


def causal(seq: int) -> Tensor:
    """Who may attend to whom: each token to itself and to what stands before it."""
    return torch.ones(seq, seq, dtype=torch.bool).tril()


def over_keys(padding: Tensor | None) -> Tensor | None:
    """A mask (batch, 1, 1, seq) from the marks of real tokens, (batch, seq)."""
    return None if padding is None else padding[:, None, None, :]


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
