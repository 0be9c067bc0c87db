"""What `group_advantages` and `grpo_loss` must do. The oracles go group by group and token by token."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, MaskedLossContract, RoundedOnceContract, core, robust

ALIKE = dict.fromkeys(("logp", "old_logp", "ref_logp"), -1 / 16)


def group_by_group(rewards: Tensor, scale: bool, eps: float) -> Tensor:
    rows = []
    for row in rewards:
        far = row - row.sum() / len(row)
        rows.append(far / (far.dot(far).div(len(row) - 1).sqrt() + eps) if scale else far)
    return torch.stack(rows)


def by_torch(rewards: Tensor, scale: bool, eps: float, correction: int = 1) -> Tensor:
    std, mean = torch.std_mean(rewards, 1, keepdim=True, correction=correction)
    return (rewards - mean) / (std + eps) if scale else rewards - mean


def by_products(rewards: Tensor, scale: bool, eps: float) -> Tensor:
    group = rewards.shape[1]
    far = rewards - rewards @ rewards.new_full((group, 1), 1 / group)
    variance = (far / (group - 1) ** 0.5).square().cumsum(1)[:, -1:]
    return far * (1 / (variance.sqrt() + eps)) if scale else far


def token_by_token(
    logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor, clip_low: float,
    clip_high: float, beta: float, aggregate: str, max_len: int | None,
) -> Tensor:  # fmt: skip
    n, loss = len(advantages), 0 * logp[mask].sum()
    for i, t in mask.nonzero().tolist():
        advantage, ratio = advantages[i], (logp[i, t] - old_logp[i, t]).exp()
        edge = 1 + clip_high if advantage > 0 else 1 - clip_low
        too_far = ratio > edge if advantage > 0 else ratio < edge
        lost = -advantage * (edge if too_far else ratio)
        if ref_logp is not None:
            x = ref_logp[i, t] - logp[i, t]
            lost = lost + beta * (torch.expm1(x) - x)
        shares = {"sequence": n * int(mask[i].sum()), "token": int(mask.sum()), "constant": n * (max_len or 0)}
        loss = loss + lost / shares[aggregate]
    return loss


def weights(mask: Tensor, aggregate: str, max_len: int | None) -> Tensor:
    """What each token weighs."""
    if aggregate == "sequence":
        return mask / (mask.sum(1, keepdim=True).clamp_min(1) * len(mask))
    return mask / (mask.sum().clamp_min(1) if aggregate == "token" else len(mask) * max_len)


def by_weights(
    logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor, clip_low: float,
    clip_high: float, beta: float, **how: Any,
) -> Tensor:  # fmt: skip
    new, old = (each.masked_fill(~mask, 0.0) for each in (logp, old_logp))
    ratio, advantage, weight = (new - old).exp(), advantages[:, None], weights(mask, **how)
    loss = (torch.max(-advantage * ratio, -advantage * ratio.clip(1 - clip_low, 1 + clip_high)) * weight).sum()
    if ref_logp is None:
        return loss
    x = ref_logp.masked_fill(~mask, 0.0) - new
    return loss + beta * ((x.exp() - x - 1) * weight).sum(1).sum()


def of_kept_tokens(
    logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor, clip_low: float,
    clip_high: float, beta: float, **how: Any,
) -> Tensor:  # fmt: skip
    new, old, advantage = logp[mask], old_logp[mask], advantages[:, None].expand(mask.shape)[mask]
    ratio = 1 + torch.expm1(new - old)
    losses = -torch.where(advantage > 0, ratio.clamp_max(1 + clip_high), ratio.clamp_min(1 - clip_low)) * advantage
    if ref_logp is not None:
        x = ref_logp[mask] - new
        losses = losses + beta * (torch.expm1(x) - x)
    return (losses * weights(mask, **how)[mask]).cumsum(0)[-1:].sum()  # one after the other


class TestGroupAdvantages(RoundedOnceContract):
    name = "group_advantages"
    oracle = group_by_group
    variants = (by_torch, by_products)
    differentiable = False  # rewards are numbers: advantages made under `no_grad` are as good
    holds = {"Deviation": ("test_hard_cases", "test_advantages_are")}
    cases = {"centered": {"scale": False}, "centered_pairs": {"scale": False, "group": 2}}
    more_shapes = {"one_prompt": {"prompts": 1}}
    hard_cases = {
        "scaled": {},
        "another_eps": {"eps": 0.5},
        "equal_rewards": {"rewards": torch.tensor([[1.0] * 4, [1.0, 0.0, 0.5, 0.0]])},
    }
    representative = ("centered", "scaled")
    near_300 = {"group": 301, "offset": 300.0}
    growth_sizes = (3, 15)
    timed = {"prompts": 1024, "group": 24}
    time_limit = 20.0

    @classmethod
    def call(cls, d: Draw, prompts: int = 3, group: int = 5, offset: float = 0.0, **more: float | Tensor) -> Call:
        """Rewards with another mean and another spread in each group."""
        spread, mean = d.uniform(prompts, 1, low=0.5, high=2.0), offset + d.normal(prompts, 1)
        return Call({"rewards": mean + spread * d.normal(prompts, group), **more})

    @core
    def test_advantages_are_distances_from_the_mean_in_deviations(self, attempt: Attempt, draw: Draw) -> None:
        call = self.call(draw, eps=0.5)
        got = self.run(attempt, "scaled", call)
        if not torch.allclose(got, by_torch(**call.inputs, scale=True, correction=0), rtol=1e-4, atol=1e-6):
            self.compare(attempt, draw, "scaled", call, {"result": got.to(attempt.device)})


class TestGrpoLoss(MaskedLossContract):
    name = "grpo_loss"
    oracle = token_by_token
    variants = (by_weights, of_kept_tokens)
    constants = ("old_logp", "ref_logp", "advantages")
    holds = {
        "Padding": ("test_hard_cases",),
        "Bounds": ("test_unlikely_and_far",),
        "Constants": ("test_constants",),
        "Errors": ("test_an_unknown",),
    }
    cases = {
        "by_sequence": {},
        "by_token": {"aggregate": "token", "idle": True},
        "by_a_constant": {"aggregate": "constant", "max_len": 11},
        "two_clips": {"clip_low": 0.1, "clip_high": 0.4},
        "a_strong_penalty": {"beta": 0.5},
        "no_penalty": {"beta": 0.0, "ref_logp": None},
    }
    more_shapes = {"one_token": {"n": 1, "seq": 1, "aggregate": "token"}, "rows_of_one_token": {"seq": 1}}
    hard_cases = {
        "garbage_where_masked": {"garbage": True},
        "a_sequence_without_tokens": {"dead": True},
        "a_constant_for_a_sequence_without_tokens": {"dead": True, "aggregate": "constant", "max_len": 11},
        "nothing_kept": {"kept": 0.0, "aggregate": "token", "garbage": True},
    }
    far = {
        "unlikely_tokens": {"offset": -200.0},
        "log_ratios_of_12_to_19": {"far": 15.5},
        "a_reference_12_to_19_away": {"far": 15.5, "beta": 0.5},
    }
    # Their sum is beyond float16, their mean is not.
    near_300 = {"seq": 100, "kept": 1.0, "gain": 300.0, "aggregate": "token"}
    coarse = {
        "the_old_policy_far_away": ALIKE | {"old_logp": -16.125, "advantages": -1.0},
        "the_reference_far_away": ALIKE | {"ref_logp": 16.0, "advantages": -1.0, "beta": 1.0},
    }
    level, level_loss = ALIKE | {"advantages": 1.0, "aggregate": "token"}, -1.0
    timed = {"n": 24, "seq": 512}
    time_limit = 10.0

    @classmethod
    def call(
        cls, d: Draw, n: int = 4, seq: int = 7, kept: float = 0.6, dead: bool = False, garbage: bool = False,
        offset: float = 0.0, far: float = 0.0, gain: float = 0.0, idle: bool = False, **settings: Any,
    ) -> Call:  # fmt: skip
        """Ratios well off both clips, where gradients jump, and below 3, where a dual clip would bind.

        The second sequence has one token, or with `dead` none; with `idle` the first has no advantage.
        """
        edges = -math.log1p(-settings.get("clip_low", 0.2)), math.log1p(settings.get("clip_high", 0.2))
        old = offset - d.uniform(n, seq, low=0.1, high=3.0)
        logp = old + cls.moved(d, (n, seq), *edges)
        ref = logp + d.normal(n, seq, scale=0.7)
        if far:
            moves = d.uniform(n, seq, low=far - 3.5, high=far + 3.5)
            logp, ref = (old + (logp - old).sign() * moves, ref) if not settings else (logp, logp + moves)
        sign = torch.where(torch.arange(n) % 3 == 2, -1.0, 1.0)
        advantages = gain + sign * d.uniform(n, low=0.5, high=2.0)
        advantages[:1] *= not idle
        given = {"logp": logp, "old_logp": old, "ref_logp": ref}
        tensors = cls.masked(d, given, kept, dead, garbage, slice(0, None, 2)) | {"advantages": advantages}
        return Call(cls.signature.in_order(tensors | settings))

    @robust
    def test_unlikely_and_far_tokens_count_in_full(self, attempt: Attempt, draw: Draw) -> None:
        """A bound takes the gradient away from the tokens that went furthest. verl has three, as its own choice."""
        self.verify_all(
            attempt, draw, ((case, self.call(draw, **how)) for case, how in self.far.items()), gradients=True
        )

    @robust
    def test_an_unknown_aggregate_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A name that is not known gives some loss, and no error."""
        call = self.call(draw, aggregate="mean", max_len=7)
        self.refuses(attempt, call, "mean", sentence="aggregate='mean' is refused")
