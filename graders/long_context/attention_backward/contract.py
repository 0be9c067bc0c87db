"""What `attention_backward` must do. The oracle asks autograd, in float64, for a function with these gradients."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dojo.contracts import AUTOGRAD, FUSED, Attempt, Ban, Call, Contract, Draw, half_precisions, match, robust, tensor
from dojo.contracts.oracles import library

Gradients = tuple[Tensor, ...]
SOFTMAX = "nn.functional.softmax nn.functional.log_softmax _refs.softmax _refs.log_softmax"


def by_autograd(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, grad_out: Tensor,
    causal: bool,
) -> Gradients:  # fmt: skip
    wide = torch.promote_types(q.dtype, torch.float32)
    with torch.enable_grad():
        leaves = [each.detach().to(wide).requires_grad_() for each in (q, k, v)]
        weights = (visible(leaves[0] @ leaves[1].mT / q.shape[-1] ** 0.5, causal) - lse[..., None]).exp()
        grad = grad_out.to(wide)
        gain = grad @ leaves[2].mT - (grad * out).sum(-1, keepdim=True)
        return tuple(each.to(q.dtype) for each in torch.autograd.grad((weights * gain).sum(), leaves))


def rounded(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, grad_out: Tensor,
    causal: bool,
) -> Gradients:  # fmt: skip
    """All that enters a product is rounded to the dtype of the inputs, and so is what leaves it."""
    wide, width = torch.promote_types(q.dtype, torch.float32), q.shape[-1] ** 0.5
    weights = (visible(((q @ k.mT) / width).to(wide), causal) - lse[..., None]).exp()
    gain = (grad_out @ v.mT).to(wide) - (grad_out.to(wide) * out.to(wide)).sum(-1, keepdim=True)
    back = (weights * gain).to(q.dtype)
    return back @ k / width, back.mT @ q / width, weights.to(q.dtype).mT @ grad_out


def term_by_term(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, grad_out: Tensor,
    causal: bool,
) -> Gradients:  # fmt: skip
    """Products by broadcasting in base 2, what cancels in dS apart until the end, keys with the scale in them.

    Where a query sees one key all of dS cancels but for roundings, which may by chance be the same in every way of
    computing. So D is off by as much as it may be.
    """
    wide, dtype = torch.promote_types(q.dtype, torch.float32), q.dtype
    q, k, v, out, grad_out = (each.to(wide) for each in (q, k, v, out, grad_out))
    k = k * q.shape[-1] ** -0.5
    log_2 = 1.4426950408889634
    weights = visible((q[..., :, None, :] * k[..., None, :, :]).sum(-1) * log_2 - lse[..., None] * log_2, causal).exp2()
    gain = weights * (grad_out[..., :, None, :] * v[..., None, :, :]).sum(-1)
    slip = 4 * torch.finfo(wide).eps * (grad_out * out).abs()
    loss = weights * (grad_out * out + slip).sum(-1, keepdim=True)
    grad_q = (gain[..., None] * k[..., None, :, :]).sum(-2) - (loss[..., None] * k[..., None, :, :]).sum(-2)
    grad_k = ((gain - loss)[..., None] * q[..., :, None, :]).sum(-3) * q.shape[-1] ** -0.5
    return grad_q.to(dtype), grad_k.to(dtype), (weights[..., None] * grad_out[..., :, None, :]).sum(-3).to(dtype)


def visible(scores: Tensor, causal: bool) -> Tensor:
    s, t = scores.shape[-2:]
    return scores.masked_fill(~torch.ones(s, t, dtype=torch.bool).tril(t - s), -torch.inf) if causal else scores


def call(
    d: Draw, shape: tuple = (2, 3), q_len: int = 5, k_len: int = 7, d_k: int = 3, d_v: int = 4, beyond: int = 0,
    logit_scale: float = 1.6, high: float = 0.0, **causal: bool,
) -> Call:  # fmt: skip
    """What a forward pass left behind: of `beyond` more keys, or with a last key whose scores are all high."""
    q, k = (d.normal(*shape, n, d_k, scale=logit_scale) for n in (q_len, k_len + beyond))
    v, grad_out = d.normal(*shape, k_len + beyond, d_v), d.normal(*shape, q_len, d_v)
    if high:
        q = q.abs() + 0.1
        k[..., -1, :] = high
    wide = [each.double() for each in (q, k, v)]
    scores = visible(wide[0] @ wide[1].mT / d_k**0.5, bool(causal.get("causal")))
    out, lse = library(*wide, None if not causal else scores.isfinite()).float(), scores.logsumexp(-1).float()
    inputs = {"q": q, "k": k[..., :k_len, :], "v": v[..., :k_len, :], "out": out, "lse": lse, "grad_out": grad_out}
    return Call(inputs | causal, wide=("lse",))


def far_below_zero(d: Draw) -> Call:
    """Scores and lse are -20000, far below what hidden scores are often filled with."""
    made = call(d, (2,), d_k=1, causal=True)
    same = {"q": 200.0, "k": -100.0, "lse": -20000.0}
    return made.with_inputs(**{name: torch.full_like(made.inputs[name], value) for name, value in same.items()})


class TestAttentionBackward(Contract):
    name = "attention_backward"
    oracle = by_autograd
    variants = (rounded, by_autograd, term_by_term)
    results = ("grad_q", "grad_k", "grad_v")
    axes = {"grad_q": "batch q_len d_k", "grad_k": "batch k_len d_k", "grad_v": "batch k_len d_v"}
    differentiable = False
    ban = FUSED | AUTOGRAD | Ban("softmax", tuple(f"torch.{name}" for name in SOFTMAX.split()))
    call = call
    holds = {
        "Causal": ("test_hard_cases",),
        "Split keys": ("test_out_and_lse",),
        "Half precision": ("test_half_precision", "test_what_is_rounded"),
    }
    cases = {
        "a_batch": {"shape": (2,)},
        "no_leading_dimensions": {"shape": (), "d_k": 8, "logit_scale": 1.0},
        "causal": {"q_len": 6, "k_len": 6, "causal": True},
        "causal_and_more_keys": {"shape": (2,), "q_len": 4, "causal": True},
        "more_queries_and_not_causal_by_name": {"shape": (2,), "q_len": 7, "k_len": 3, "causal": False},
    }
    more_shapes = {
        "one_query": {"shape": (1,), "q_len": 1, "causal": True},
        "one_key": {"shape": (2,), "k_len": 1},
        "four_leading_dimensions": {"shape": (2, 1, 3, 2), "causal": True},
    }
    hard_cases = {
        "scores_and_lse_far_below_zero": far_below_zero,
        "hidden_scores_far_above_lse": {"shape": (2,), "high": 120.0, "causal": True},
    }
    representative = ("a_batch", "causal", "causal_and_more_keys")
    growth = {
        "batch": lambda d, n: call(d, (n, 3), causal=True),
        "heads": lambda d, n: call(d, (2, n), causal=True),
    }
    grows = {"queries": "q_len", "keys": "k_len", "d_k": "d_k", "d_v": "d_v"}
    timed = {"shape": (2, 4), "q_len": 192, "k_len": 256, "d_k": 32, "d_v": 32, "logit_scale": 0.7, "causal": True}
    time_limit = 12.0

    @robust
    def test_out_and_lse_may_come_from_more_keys(self, attempt: Attempt, draw: Draw) -> None:
        """Where keys are split over devices each has a part of every row, and gradients of parts no longer add up."""
        self.verify(attempt, draw, "out_and_lse_of_more_keys", call(draw, beyond=4))

    @robust
    @half_precisions
    def test_what_is_rounded_is_rounded_once(self, attempt: Attempt, dtype: torch.dtype) -> None:
        """A rounded lse, or D, is off for a whole row: all its gradients are, the same way."""
        # Weights and dS are rounded down by less than half a step; dS of weights that were rounded up is rounded up.
        eps, count = torch.finfo(dtype).eps, 4
        out = torch.tensor([-96.0, 95.0, eps * 0.3 + 2**-7]).to(dtype)
        grad_out = torch.tensor([1 + 2**-7, 1 + 2**-7, 1.0])
        lse = torch.full((2, count), 1 + 13 * math.log(2) - math.log1p(0.55 * eps))
        inputs = {"q": torch.ones(2, count, 1), "k": torch.ones(2, count, 1), "v": torch.zeros(2, count, 3)}
        inputs |= {"out": out.expand(2, count, 3), "lse": lse, "grad_out": grad_out.expand(2, count, 3)}
        made = Call(inputs, wide=("lse",)).cast(dtype)
        exact = -count * (1 - lse.double()).exp() * (made.inputs["grad_out"].double() * out.double()).sum(-1)
        with self.case_context(attempt, "equal weights, values of 0", made):
            args, kwargs = self.arguments(made.to(attempt.device))
            got = self.named(self.ready(attempt, made, dtype).request(args, kwargs)["value"])
            for name in ("grad_q", "grad_k"):
                sentence = f"lse, D and weights are float32, and dS is rounded once, as {name} shows"
                value, expected = tensor(got[name], attempt.device).cpu(), exact[..., None]
                match(value, expected, 0.51 * eps * expected.abs(), sentence, self.axes[name])
