"""What `token_logprobs`, `kl_estimates` and `kl_exact` must do. The oracles go by explicit probabilities."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Draw,
    RoundedOnceContract,
    core,
    match,
    robust,
    tensor,
)

Tensors = tuple[Tensor, ...]


class KLContract(RoundedOnceContract):
    near_300 = {"shape": (4,), "vocab": 5, "scale": 60.0, "offset": 300.0}
    growth_sizes = (8, 20)
    timed = {"shape": (256,), "vocab": 2048}


def of_probability(logits: Tensor, token_ids: Tensor) -> Tensor:
    rows, ids = logits.reshape(-1, logits.shape[-1]), token_ids.flatten().tolist()
    found = [torch.softmax(row, -1)[one].log() for row, one in zip(rows, ids, strict=True)]
    return torch.stack(found).view(token_ids.shape)


class TestTokenLogprobs(KLContract):
    name = "token_logprobs"
    oracle = of_probability
    variants = (
        lambda logits, token_ids: logits.log_softmax(-1).gather(-1, token_ids[..., None])[..., 0],
        lambda logits, token_ids: logits.gather(-1, token_ids[..., None])[..., 0] - logits.logsumexp(-1),
        lambda logits, token_ids: (
            -F.cross_entropy(logits.reshape(-1, logits.shape[-1]), token_ids.flatten(), reduction="none").view(
                token_ids.shape
            )
        ),
    )
    cases = {"rows": {}, "rows_of_a_sequence": {"shape": (2, 3)}}
    hard_cases = {
        "tokens_of_e^-150_in_rows_400_apart": lambda d: Call(
            {
                "logits": torch.tensor([[400.0, 250.0, 100.0], [0.0, -150.0, 1.0]]) + d.normal(2, 1),
                "token_ids": torch.tensor([1, 1]),
            }
        )
    }

    @classmethod
    def call(cls, d: Draw, shape: tuple = (5,), vocab: int = 7, scale: float = 2.0, offset: float = 0.0) -> Call:
        logits = offset + d.normal(*shape, vocab, scale=scale)
        return Call({"logits": logits, "token_ids": d.integers(0, vocab, *shape)})

    @robust
    def test_wrong_ids_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """An id outside of the vocabulary reads another class, and the estimate goes on with it."""
        for call in (self.call(draw), self.call(draw, (2, 3))):
            ids = call.inputs["token_ids"]
            for wrong in (7, -1, -100):
                bad = ids.clone()
                bad.view(-1)[3] = wrong
                sentence = f"an id of {wrong} with 7 classes is refused"
                self.refuses(attempt, call.with_inputs(token_ids=bad), wrong, sentence=sentence)
            self.refuses_each(attempt, call, token_ids=(ids[:1], ids[..., :2], ids[..., None], ids[None]))
            if ids.dim() > 1:
                self.refuses_each(attempt, call, token_ids=(ids[0], ids[:, :1], ids.T))


def of_ratio(logp: Tensor, ref_logp: Tensor) -> Tensors:
    ratio = torch.exp(ref_logp) / torch.exp(logp)
    return -torch.log(ratio), 0.5 * torch.log(ratio) * torch.log(ratio), ratio - 1 - torch.log(ratio)


def by_expm1(logp: Tensor, ref_logp: Tensor) -> Tensors:
    return logp - ref_logp, 0.5 * (logp - ref_logp) ** 2, torch.expm1(ref_logp - logp) - (ref_logp - logp)


def by_squares(logp: Tensor, ref_logp: Tensor) -> Tensors:
    x = ref_logp - logp
    return -x, x.square() / 2, x.exp() - 1 - x


def by_products(logp: Tensor, ref_logp: Tensor) -> Tensors:
    return logp - ref_logp, (logp - ref_logp) * (logp - ref_logp) / 2, (ref_logp - logp).exp() + (logp - ref_logp) - 1


class TestKlEstimates(KLContract):
    name = "kl_estimates"
    results = ("k1", "k2", "k3")
    axes = dict.fromkeys(results, "batch")
    oracle = of_ratio
    variants = (by_expm1, by_squares, by_products)
    cases = {"tokens": {}, "tokens_of_sequences": {"shape": (2, 3)}, "nearly_equal_policies": {"apart": 0.03}}
    hard_cases = {
        "equal_policies": {"apart": 0.0},
        "policies_far_apart": {"apart": 20.0},
        "differences_that_half_precision_rounds": {"shape": (40,), "apart": 9.0},
    }
    representative = (*cases, "differences_that_half_precision_rounds")
    near_300 = {"shape": (3,), "low": 295.0, "high": 305.0}
    timed = {"shape": (100_000,)}

    @classmethod
    def call(cls, d: Draw, shape: tuple = (7,), apart: float = 6.0, low: float = 0.0, high: float = 0.0) -> Call:
        """The policy's between -7 and -1, the reference's at most `apart` away, or lower by `low` to `high`."""
        logp = -d.uniform(*shape, low=1.0, high=7.0)
        away = -d.uniform(*shape, low=low, high=high) if high else d.uniform(*shape, low=-apart, high=apart)
        return Call({"logp": logp, "ref_logp": logp + away})

    @core
    def test_the_mean_of_k3_is_the_exact_value(self, attempt: Attempt, draw: Draw) -> None:
        log_p, log_q = draw.normal(2, 40).log_softmax(-1)
        k3 = self.named(
            attempt.kl_estimates.request((log_p.to(attempt.device), log_q.to(attempt.device)), {})["value"]
        )["k3"]
        exact = (log_p.double().exp() * (log_p.double() - log_q.double())).sum()
        mean = (log_p.double().exp() * tensor(k3, attempt.device).cpu()).sum()
        match(mean, exact, 1e-3 * exact, "the mean of k3 over the policy's tokens is the exact value", "")

    @robust
    def test_unlikely_tokens(self, attempt: Attempt, draw: Draw) -> None:
        """In float32 exp(-150) is 0, and a ratio of two such is nan."""
        logp = torch.tensor([-150.0, -151.0])
        calls = [("log-probabilities of -150", Call({"logp": logp, "ref_logp": logp + torch.tensor([1.0, -0.5])}))]
        for x in (30.0, 40.0, 50.0, 60.0, 70.0, 79.0):
            calls.append((f"x = {x:g}", Call({"logp": logp[:1], "ref_logp": logp[:1] + x})))
        self.verify_all(attempt, draw, calls)

    @robust
    def test_unlike_shapes_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Log-probabilities that broadcast compare a token with another one."""
        call = self.call(draw, (2, 3))
        ref = call.inputs["ref_logp"]
        self.refuses_each(attempt, call, ref_logp=(ref[:1], ref[0], ref[:, :1], ref[:, :2], ref.mT, ref[None]))


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


def of_unnormalised(logits: Tensor, ref_logits: Tensor) -> Tensor:
    p = logits.softmax(-1)
    moved = (p * (logits - ref_logits).where(p > 0, 0.0)).sum(-1)
    return moved - logits.logsumexp(-1) + ref_logits.logsumexp(-1)


def normalised_twice(logits: Tensor, ref_logits: Tensor) -> Tensor:
    log_p, log_q = logits.log_softmax(-1), ref_logits.log_softmax(-1)  # as torch.distributions does
    return (log_p.softmax(-1) * (log_p - log_q).where(log_p > -math.inf, 0.0)).sum(-1)


def with_written_gradients(logits: Tensor, ref_logits: Tensor) -> Tensor:
    log_p, log_q = logits.detach().log_softmax(-1), ref_logits.detach().log_softmax(-1)
    p, there = log_p.exp(), log_p > -math.inf
    apart = (log_p - log_q).where(there, 0.0)
    kl = (p * apart).sum(-1, keepdim=True)
    pulls = (p * (apart - kl), logits), (log_q.exp() - p, ref_logits)  # p (ln p - ln q - KL), and q - p
    zeros = (pull * (each - each.detach()).where(each > -math.inf, 0.0) for pull, each in pulls)
    return kl[..., 0] + sum(zeros).sum(-1)


def of_log_probabilities(logits: Tensor, ref_logits: Tensor) -> Tensor:
    p = logits.softmax(-1)
    return (p * (logits.log_softmax(-1) - ref_logits.log_softmax(-1)).where(p > 0, 0.0)).sum(-1)


class TestKlExact(KLContract):
    name = "kl_exact"
    oracle = class_by_class
    variants = (
        cross_entropy_minus_entropy,
        of_unnormalised,
        normalised_twice,
        with_written_gradients,
        of_log_probabilities,
    )
    cases = {
        "rows": {},
        "rows_of_a_sequence": {"shape": (2, 3)},
        "far_apart": {"scale": 3.0},
        "nearly_equal": {"apart": 0.1},
    }
    hard_cases = {
        "classes_that_the_policy_rules_out": {"never": 2},
        "classes_that_both_rule_out": {"never": 2, "ruled_out": 2},
        "one_class_that_both_rule_out": {"shape": (), "never": 2, "ruled_out": 1},
    }

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (5,), vocab: int = 7, scale: float = 2.0, offset: float = 0.0,
        apart: float = 0.0, never: int = 0, ruled_out: int = 0,
    ) -> Call:  # fmt: skip
        """The policy never draws the first `never` classes, the reference rules out the first `ruled_out`."""
        place = torch.arange(vocab)
        policy, other = (offset + d.normal(*shape, vocab, scale=scale) for _ in range(2))
        reference = (policy + apart * d.normal(*shape, vocab)) if apart else other
        policy = policy.masked_fill(place < never, -math.inf)
        reference = reference.masked_fill(place < ruled_out, -math.inf)
        return Call({"logits": policy, "ref_logits": reference})

    @robust
    def test_what_the_reference_rules_out_gives_infinity(self, attempt: Attempt, draw: Draw) -> None:
        """A finite number hides that the policy draws what the reference never would."""
        call = self.call(draw, never=1, ruled_out=2, scale=1.0)
        some = call.inputs["ref_logits"].clone()
        some[0] = draw.normal(7)
        self.verify(attempt, draw, "rows that the reference rules out in part", call.with_inputs(ref_logits=some))
        rare = call.inputs["logits"].clone()
        rare[:, 1] = -30.0
        self.verify(attempt, draw, "a rare class that the reference rules out", call.with_inputs(logits=rare))

    @robust
    def test_unlike_rows_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Logits that broadcast compare a position with another one."""
        call = self.call(draw, (2, 3))
        ref = call.inputs["ref_logits"]
        wrong = [ref[:1], ref[0], ref[0, 0], ref[:, :2], ref[..., :6], ref.transpose(0, 1), ref.flatten(0, 1)]
        self.refuses_each(attempt, call, ref_logits=(*wrong, ref[..., :1]))
