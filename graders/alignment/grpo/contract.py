"""What `group_advantages` and `grpo_loss` must do. The oracles go group by group and token by token."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Draw,
    MaskedLossContract,
    RoundedOnceContract,
    fail,
    robust,
)

ALIKE = dict.fromkeys(("logp", "old_logp", "ref_logp"), -1 / 16)
EQUAL = {"reward_0": [[0.0] * 4], "reward_1": [[1.0] * 4, [1.0, 0.0, 0.5, 0.0]], "one_answer": [[2.0], [-1.0]]}


def group_by_group(rewards: Tensor, scale: bool, eps: float) -> Tensor:
    rows = []
    for row in rewards:
        mean = sum(row) / len(row)
        far = [each - mean for each in row]
        variance = sum(each * each for each in far) / max(1, len(row) - 1)
        spread = variance.sqrt() if variance > 0 else variance
        rows.append(torch.stack([each / (spread + eps) if scale else each for each in far]))
    return torch.stack(rows)


def by_torch(rewards: Tensor, scale: bool, eps: float) -> Tensor:
    std, mean = torch.std_mean(rewards, 1, keepdim=True, correction=min(1, rewards.shape[1] - 1))
    return (rewards - mean) / (std + eps) if scale else rewards - mean


def by_products(rewards: Tensor, scale: bool, eps: float) -> Tensor:
    group = rewards.shape[1]
    far = rewards - rewards @ rewards.new_full((group, 1), 1 / group)
    variance = (far / max(1, group - 1) ** 0.5).square().cumsum(1)[:, -1:]
    spread = torch.where(variance > 0, torch.where(variance > 0, variance, 1.0).sqrt(), 0.0)
    return far * (1 / (spread + eps)) if scale else far


def by_norms(rewards: Tensor, scale: bool, eps: float) -> Tensor:
    group = rewards.shape[1]
    far = (group * rewards - rewards.sum(1, keepdim=True)) / group
    return far / (far.norm(dim=1, keepdim=True) / max(1, group - 1) ** 0.5 + eps) if scale else far


def token_by_token(
    logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor, clip_low: float,
    clip_high: float, beta: float, aggregate: str, max_len: int | None,
) -> Tensor:  # fmt: skip
    rows = []
    for i, advantage in enumerate(advantages):
        row = []
        for t in mask[i].nonzero().flatten().tolist():
            ratio = (logp[i, t] - old_logp[i, t]).exp()
            edge = 1 + clip_high if advantage > 0 else 1 - clip_low
            too_far = ratio > edge if advantage > 0 else ratio < edge
            loss = -advantage * (edge if too_far else ratio)
            if ref_logp is not None and beta:
                x = ref_logp[i, t] - logp[i, t]
                loss = loss + beta * (torch.expm1(x) - x)
            row.append(loss)
        rows.append(row)
    every = [loss for row in rows for loss in row]
    if not every:
        return 0 * logp[mask].sum()
    if aggregate == "sequence":
        return sum(sum(row) / len(row) for row in rows if row) / len(rows)
    return sum(every) / (len(every) if aggregate == "token" else len(rows) * max_len)


def by_weights(
    logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor, clip_low: float,
    clip_high: float, beta: float, **how: Any,
) -> Tensor:  # fmt: skip
    new, old = (each.masked_fill(~mask, 0.0) for each in (logp, old_logp))
    ratio, advantage = (new - old).exp(), advantages.unsqueeze(1)
    losses = torch.max(-advantage * ratio, -advantage * torch.clamp(ratio, 1 - clip_low, 1 + clip_high))
    if beta and ref_logp is not None:
        x = ref_logp.masked_fill(~mask, 0.0) - new
        losses = losses + beta * (x.exp() - x - 1)
    return (losses * weights(mask, **how)).sum()


def of_kept_tokens(
    logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor, clip_low: float,
    clip_high: float, beta: float, **how: Any,
) -> Tensor:  # fmt: skip
    new, old, advantage = logp[mask], old_logp[mask], advantages[:, None].expand(mask.shape)[mask]
    ratio = 1 + torch.expm1(new - old)
    losses = -torch.where(advantage > 0, ratio.clamp_max(1 + clip_high), ratio.clamp_min(1 - clip_low)) * advantage
    if beta and ref_logp is not None:
        x = ref_logp[mask] - new
        losses = losses + beta * (torch.expm1(x) - x)
    return (losses * weights(mask, **how)[mask]).cumsum(0)[-1:].sum()  # one after the other


def in_two_parts(
    logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor, clip_low: float,
    clip_high: float, beta: float, **how: Any,
) -> Tensor:  # fmt: skip
    new, old = (torch.where(mask, each, 0.0) for each in (logp, old_logp))
    ratio, advantage, weight = (new - old).exp(), advantages[:, None], weights(mask, **how)
    policy = (torch.min(ratio * advantage, ratio.clip(1 - clip_low, 1 + clip_high) * advantage) * weight).sum(1).sum()
    if not beta or ref_logp is None:
        return -policy
    ref = torch.where(mask, ref_logp, 0.0)
    return beta * (((ref - new).exp() - 1 + (new - ref)) * weight).sum(1).sum() - policy


def weights(mask: Tensor, aggregate: str, max_len: int | None) -> Tensor:
    """What each token weighs."""
    if aggregate == "sequence":
        return mask / (mask.sum(1, keepdim=True).clamp_min(1) * len(mask))
    return mask / (mask.sum().clamp_min(1) if aggregate == "token" else len(mask) * max_len)


class TestGroupAdvantages(RoundedOnceContract):
    name = "group_advantages"
    oracle = group_by_group
    variants = (by_torch, by_products, by_norms)
    cases = {
        "groups_of_their_own_mean": {},
        "centred_alone": {"scale": False},
        "another_eps": {"eps": 0.5},
        "a_group_of_two": {"group": 2, "eps": 0.3},
    }
    more_shapes = {"one_prompt": {"prompts": 1}}
    hard_cases = {
        "a_group_of_one": {"group": 1},
        "a_group_of_one_centred": {"group": 1, "scale": False},
        "rewards_that_hardly_differ": {"size": 1e-3},
    }
    near_300 = {"group": 301, "offset": 300.0}
    growth_sizes = (3, 15)
    timed = {"prompts": 1024, "group": 24}
    time_limit = 20.0

    @classmethod
    def call(
        cls, d: Draw, prompts: int = 3, group: int = 5, offset: float = 0.0, size: float = 1.0, **settings: float
    ) -> Call:
        """Rewards well apart from each other, with another mean and another spread in each group."""
        places = torch.stack([torch.randperm(group, generator=d.generator) for _ in range(prompts)])
        spread = d.uniform(prompts, 1, low=0.5, high=2.0) * min(1.0, 5 / group)
        rewards = d.normal(prompts, 1) + spread * (places + d.uniform(prompts, group, high=0.5))
        return Call({"rewards": offset + size * rewards, **settings})

    @robust
    def test_equal_rewards_give_zero_with_finite_gradients(self, attempt: Attempt, draw: Draw) -> None:
        """A prompt that every answer solves turns the step into nan."""
        for case, rows in EQUAL.items():
            call = Call({"rewards": torch.tensor(rows)})
            self.verify(attempt, draw, case, call)
            x = call.inputs["rewards"].to(attempt.device).requires_grad_()
            with self.case_context(attempt, case, call):
                y = (attempt.group_advantages(x) * draw.normal(*x.shape).to(x)).sum()
                (grad,) = torch.autograd.grad(y, x, materialize_grads=True)  # out of the graph is for another check
                if not grad.isfinite().all():
                    fail("gradients at equal rewards are finite", f"got {grad.tolist()}")

    @robust
    def test_rewards_of_one_axis_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Without an axis of groups, answers to different prompts are compared."""
        self.refuses_each(attempt, self.call(draw), rewards=[draw.normal(6)])


class TestGrpoLoss(MaskedLossContract):
    name = "grpo_loss"
    oracle = token_by_token
    variants = (by_weights, of_kept_tokens, in_two_parts)
    constants = ("old_logp", "ref_logp", "advantages")
    cases = {
        "by_sequence": {},
        "by_token": {"aggregate": "token"},
        "by_a_constant": {"aggregate": "constant", "max_len": 11},
        "two_clips": {"clip_low": 0.1, "clip_high": 0.4},
        "a_strong_penalty": {"beta": 0.5},
        "no_penalty": {"beta": 0.0, "reference": False},
    }
    more_shapes = {"one_sequence": {"n": 1}, "one_token": {"n": 1, "seq": 1}, "rows_of_one_token": {"seq": 1}}
    hard_cases = {
        "garbage_where_masked": {"garbage": True},
        "garbage_where_masked_by_token": {"garbage": True, "aggregate": "token"},
        "a_sequence_without_tokens": {"dead": True},
        "a_sequence_without_tokens_by_a_constant": {"dead": True, "aggregate": "constant", "max_len": 5},
        "nothing_kept": {"kept": 0.0},
        "nothing_kept_by_token": {"kept": 0.0, "aggregate": "token", "garbage": True},
        "beta_0_with_a_reference": {"beta": 0.0},
        "as_many_sequences_as_tokens": {"n": 7},
        "an_advantage_of_0": {"idle": True, "aggregate": "token"},
        "one_token_by_token": {"n": 1, "seq": 1, "aggregate": "token"},
        "a_length_of_one": {"seq": 1, "kept": 1.0, "aggregate": "constant", "max_len": 1},
        "unlikely_tokens": {"offset": -200.0},
        "ratios_far_from_one": {"stretch": 6.0, "clip_low": 0.5, "clip_high": 0.5},
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
    timed = {"n": 48, "seq": 512}
    time_limit = 20.0

    @classmethod
    def call(
        cls, d: Draw, n: int = 4, seq: int = 7, kept: float = 0.6, dead: bool = False, garbage: bool = False,
        reference: bool = True, offset: float = 0.0, stretch: float = 1.0, far: float = 0.0, gain: float = 0.0,
        idle: bool = False, **settings: Any,
    ) -> Call:  # fmt: skip
        """Ratios well off both clips, where gradients jump. The second sequence has one token, or with `dead` none."""
        edges = -math.log1p(-settings.get("clip_low", 0.2)), math.log1p(settings.get("clip_high", 0.2))
        old = offset - d.uniform(n, seq, low=0.1, high=3.0)
        logp = old + stretch * cls.moved(d, (n, seq), *edges)
        ref = logp + stretch * d.normal(n, seq, scale=0.7)
        if far:
            moves = d.uniform(n, seq, low=far - 3.5, high=far + 3.5)
            logp, ref = (old + (logp - old).sign() * moves, ref) if not settings else (logp, logp + moves)
        sign = torch.where(torch.arange(n) % 3 == 2, -1.0, 1.0)
        advantages = gain + sign * d.uniform(n, low=0.5, high=2.0)
        advantages[:1] *= not idle
        tensors = cls.masked(
            d, {"logp": logp, "old_logp": old, "ref_logp": ref}, kept, dead, garbage, slice(0, None, 2)
        )
        tensors |= {"advantages": advantages} | ({} if reference else {"ref_logp": None})
        return Call(cls.signature.in_order(tensors) | settings)

    @robust
    def test_wrong_arguments_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Shapes that broadcast, or a name that is not known, give some loss, and no error."""
        call = self.call(draw)
        for name in ("old_logp", "ref_logp", "mask", "advantages"):
            given = call.inputs[name]
            others = (given[:1], given[:, None] if name == "advantages" else given[:, :1], torch.cat([given] * 2))
            self.refuses_each(attempt, call, **{name: others})
        self.refuses_each(attempt, call, clip_low=(0.0, -0.1), clip_high=(0.0, -0.1), beta=(-0.5,))
        for told, held, changed in (
            ("aggregate='mean'", "mean", {"aggregate": "mean"}),
            ("a missing ref_logp with beta=0.5", (None, 0.5, "ref_logp"), {"ref_logp": None, "beta": 0.5}),
            ("a missing max_len for 'constant'", (None, "max_len"), {"aggregate": "constant"}),
        ):
            self.refuses(attempt, call.with_inputs(**changed), held, sentence=f"{told} is refused")
        self.refuses_each(attempt, call.with_inputs(aggregate="constant"), max_len=(0, -3))
