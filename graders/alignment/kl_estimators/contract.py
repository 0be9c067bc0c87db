"""What `token_logprobs`, `kl_estimates` and `kl_exact` must do. The oracles go by explicit probabilities."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, RoundedOnceContract, robust


def of_probability(logits: Tensor, token_ids: Tensor) -> Tensor:
    rows, ids = logits.reshape(-1, logits.shape[-1]), token_ids.flatten().tolist()
    found = [torch.softmax(row, -1)[one].log() for row, one in zip(rows, ids, strict=True)]
    return torch.stack(found).view(token_ids.shape)


def less_the_normalizer(logits: Tensor, token_ids: Tensor) -> Tensor:
    return logits.gather(-1, token_ids[..., None])[..., 0] - logits.logsumexp(-1)


class TestTokenLogprobs(RoundedOnceContract):
    name = "token_logprobs"
    oracle = of_probability
    variants = (less_the_normalizer,)
    holds = {"Extremes": ("test_hard_cases",), "Half precision": ("test_half_precision",)}
    cases = {"rows": {}, "rows_of_a_sequence": {"shape": (2, 3)}}
    hard_cases = {
        "tokens_of_e^-150": lambda d: Call(
            {"logits": torch.tensor([[400.0, 250.0, 100.0], [0.0, -150.0, 1.0]]), "token_ids": torch.tensor([1, 1])}
        ),
        "large_logits": lambda d: Call({"logits": torch.full((2, 3), 192.0), "token_ids": d.integers(0, 3, 2)}),
    }
    representative = (*cases, *hard_cases)
    timed = {"shape": (256,), "vocab": 2048}

    @classmethod
    def call(cls, d: Draw, shape: tuple = (5,), vocab: int = 7) -> Call:
        return Call({"logits": d.normal(*shape, vocab, scale=2.0), "token_ids": d.integers(0, vocab, *shape)})


def of_ratio(logp: Tensor, ref_logp: Tensor) -> tuple[Tensor, ...]:
    ratio = torch.exp(ref_logp) / torch.exp(logp)
    return -torch.log(ratio), 0.5 * torch.log(ratio) * torch.log(ratio), ratio - 1 - torch.log(ratio)


def by_expm1(logp: Tensor, ref_logp: Tensor) -> tuple[Tensor, ...]:
    return logp - ref_logp, 0.5 * (logp - ref_logp) ** 2, torch.expm1(ref_logp - logp) - (ref_logp - logp)


def by_exp(logp: Tensor, ref_logp: Tensor) -> tuple[Tensor, ...]:
    x = ref_logp - logp
    return -x, x.square() / 2, x.exp() - 1 - x


class TestKlEstimates(RoundedOnceContract):
    name = "kl_estimates"
    results = ("k1", "k2", "k3")
    axes = dict.fromkeys(results, "batch")
    oracle = of_ratio
    variants = (by_expm1, by_exp)
    holds = {"Extremes": ("test_hard_cases",), "Half precision": ("test_half_precision",)}
    # In ordinary cases no estimate is above 10: until there, who clamps gives the same.
    cases = {"tokens": {}, "tokens_of_sequences": {"shape": (2, 3)}, "nearly_equal_policies": {"apart": 0.03}}
    hard_cases = {
        "equal_policies": {"apart": 0.0},
        "policies_far_apart": {"shape": (400,), "apart": 10.9},
        "tokens_of_e^-150": {"likely": -150.0},
    }
    representative = (*cases, "policies_far_apart")
    timed_scale = (1.0, 1.0)

    @classmethod
    def call(cls, d: Draw, shape: tuple = (7,), apart: float = 2.4, likely: float = -1.0) -> Call:
        """The policy's log-probabilities are up to 6 below `likely`, the reference's at most `apart` away."""
        logp = likely - d.uniform(*shape, high=6.0)
        return Call({"logp": logp, "ref_logp": logp + d.uniform(*shape, low=-apart, high=apart)})


def class_by_class(logits: Tensor, ref_logits: Tensor) -> Tensor:
    total = 0 * logits[..., 0].exp()
    for p, q in zip(torch.softmax(logits, -1).unbind(-1), torch.softmax(ref_logits, -1).unbind(-1), strict=True):
        there = p > 0
        total = total + torch.where(there, p * torch.log(p.where(there, 1.0) / q.where(there, 1.0)), 0.0)
    return total


def cross_entropy_minus_entropy(logits: Tensor, ref_logits: Tensor) -> Tensor:
    p = logits.softmax(-1)
    entropy, cross = (-(p * each.log_softmax(-1).where(p > 0, 0.0)).sum(-1) for each in (logits, ref_logits))
    return cross - entropy


def of_unnormalized(logits: Tensor, ref_logits: Tensor) -> Tensor:
    p = logits.softmax(-1)
    moved = (p * (logits - ref_logits).where(p > 0, 0.0)).sum(-1)
    return moved - logits.logsumexp(-1) + ref_logits.logsumexp(-1)


def ruling_out(d: Draw, policy: int, reference: int, shape: tuple = (5,)) -> Call:
    """The policy never draws its first classes, the reference rules out its own."""
    call, place = TestKlExact.call(d, shape, vocab=7), torch.arange(7)
    logits, ref_logits = call.inputs.values()
    never, out = place < policy, place < reference
    return Call({"logits": logits.masked_fill(never, -math.inf), "ref_logits": ref_logits.masked_fill(out, -math.inf)})


class TestKlExact(RoundedOnceContract):
    name = "kl_exact"
    oracle = class_by_class
    variants = (cross_entropy_minus_entropy, of_unnormalized)
    holds = {"Ruled-out classes": ("test_hard_cases", "test_what_the"), "Half precision": ("test_half_precision",)}
    cases = {"rows": {}, "far_apart": {"scale": 3.0}}
    hard_cases = {
        "classes_that_the_policy_rules_out": partial(ruling_out, policy=2, reference=0),
        "classes_that_both_rule_out": partial(ruling_out, policy=2, reference=2),
    }

    @robust
    def test_what_the_reference_rules_out_gives_infinity(self, attempt: Attempt, draw: Draw) -> None:
        """A finite number hides that the policy draws what the reference never would."""
        call = ruling_out(draw, policy=1, reference=2)
        self.verify(attempt, draw, "a class that the reference rules out", call)
        logits = call.inputs["logits"].clone()
        logits[:, 1] = -30.0
        self.verify(attempt, draw, "a rare class that the reference rules out", call.with_inputs(logits=logits))
