"""What `attention_backward` must do. The oracle asks autograd, in float64, for a function with these gradients."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dojo.contracts import (
    AUTOGRAD,
    FUSED,
    Attempt,
    Ban,
    Call,
    Contract,
    Draw,
    fail,
    half_precisions,
    match,
    robust,
    tensor,
)
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
    """Products by broadcasting in base 2, what cancels in dS apart until the end, keys with the scale in them."""
    wide, dtype = torch.promote_types(q.dtype, torch.float32), q.dtype
    q, k, v, out, grad_out = (each.to(wide) for each in (q, k, v, out, grad_out))
    k = k * q.shape[-1] ** -0.5
    log_2 = 1.4426950408889634
    weights = visible((q[..., :, None, :] * k[..., None, :, :]).sum(-1) * log_2 - lse[..., None] * log_2, causal).exp2()
    gain = weights * (grad_out[..., :, None, :] * v[..., None, :, :]).sum(-1)
    loss = weights * (grad_out * out).sum(-1, keepdim=True)
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


def below(made: Call, by: float) -> Call:
    return made.with_inputs(lse=made.inputs["lse"] - by)


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
    cases = {
        "a_batch": {"shape": (2,)},
        "no_leading_dimensions": {"shape": ()},
        "causal": {"q_len": 6, "k_len": 6, "causal": True},
        "causal_and_more_keys": {"shape": (2,), "q_len": 4, "causal": True},
        "wide_heads": {"shape": (2,), "d_k": 8, "logit_scale": 1.0},
        "not_causal_by_name": {"shape": (2,), "causal": False},
    }
    more_shapes = {
        "one_query": {"shape": (1,), "q_len": 1, "causal": True},
        "one_key": {"shape": (2,), "k_len": 1},
        "four_leading_dimensions": {"shape": (2, 1, 3, 2), "causal": True},
        "one_of_each": {"shape": (), "q_len": 1, "k_len": 1, "d_k": 1, "d_v": 1, "causal": True},
    }
    hard_cases = {
        "out_and_lse_of_more_keys": {"beyond": 4},
        "scores_above_lse": lambda d: below(call(d, (2,)), 2.0),
        "scores_far_above_lse": lambda d: below(call(d, (2,)), 40.0),
        "scores_and_lse_far_below_zero": far_below_zero,
        "hidden_scores_far_above_lse": {"shape": (2,), "high": 120.0, "causal": True},
        "fewer_keys_than_queries": {"shape": (2,), "q_len": 7, "k_len": 3},
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
    @half_precisions
    def test_lse_exponents_and_sums_are_not_rounded_to_half(self, attempt: Attempt, dtype: torch.dtype) -> None:
        """The steps of bfloat16 are 4 at 1000 and 1/2 at 96: weights or D are off by a factor, as gradients are."""
        q, k = torch.full((2, 3, 1), 40.0), torch.full((2, 6, 1), 25.0)  # scores of 1000, which half precision holds
        grad_out, out = torch.full((2, 3, 2), 1.0078125), torch.tensor([96.0, -95.5]).repeat(2, 3, 1)
        v, lse = torch.zeros(2, 6, 2), torch.full((2, 3), 1008.28125)
        made = Call({"q": q, "k": k, "v": v, "out": out, "lse": lse, "grad_out": grad_out}, wide=("lse",)).cast(dtype)
        weight, row_dot = math.exp(-8.28125), 0.5 * 1.0078125  # bfloat16 has -8.25 and -8.3125, and 97 - 96 for D
        with self.case_context(attempt, "scores of 1000, values of 0", made):
            args, kwargs = self.arguments(made.to(attempt.device))
            got = self.named(self.ready(attempt, made, dtype).request(args, kwargs)["value"])
            for name, exact in (("grad_k", -3 * weight * row_dot * 40), ("grad_v", 3 * weight * 1.0078125)):
                expected = torch.full((2, 6, 1 if name == "grad_k" else 2), exact, dtype=torch.float64)
                sentence = f"lse, exponents and sums are not rounded to half precision, as {name} tells"
                value = tensor(got[name], attempt.device).cpu()
                match(value, expected, 0.02 * expected.abs(), sentence, self.axes[name])

    @robust
    def test_results_carry_no_graph(self, attempt: Attempt, draw: Draw) -> None:
        """The graph of a way back is kept beside that of the way forward, and the memory of a step doubles."""
        for causal in (False, True):
            callee, args, kwargs = self.prepare_call(attempt, call(draw, causal=causal))
            answer = callee.ask(do="forward_backward", target=callee.target, args=args, kwargs=kwargs)
            if any(isinstance(grad, Tensor) for grad in answer["inputs"]):
                fail("results carry no graph", "a gradient flows back from the results to the inputs")

    @robust
    def test_causal_queries_without_keys_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Their weights are all hidden: gradients of 0 hide that inputs were swapped."""
        made = call(draw, q_len=5, k_len=3).with_inputs(causal=True)
        self.refuses(attempt, made, 5, 3, sentence="causal attention of 5 queries to 3 keys is refused")
