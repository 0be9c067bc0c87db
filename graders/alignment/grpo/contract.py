"""What `group_advantages` and `grpo_loss` must do. The oracles go group by group and token by token."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dojo.contracts import (
    Attempt,
    Call,
    Contract,
    Draw,
    assert_raises,
    fail,
    robust,
)

EQUAL = {"reward_0": [[0.0] * 4], "reward_1": [[1.0] * 4, [1.0, 0.0, 0.5, 0.0]], "one_answer": [[2.0], [-1.0]]}


def group_by_group(init: dict, params: dict, rewards: Tensor, scale: bool = True, eps: float = 1e-4) -> Tensor:
    rows = []
    for row in rewards:
        mean = sum(row) / len(row)
        far = [each - mean for each in row]
        variance = sum(each * each for each in far) / max(1, len(row) - 1)
        spread = variance.sqrt() if variance > 0 else variance
        rows.append(torch.stack([each / (spread + eps) if scale else each for each in far]))
    return torch.stack(rows)


def by_torch(init: dict, params: dict, rewards: Tensor, scale: bool = True, eps: float = 1e-4) -> Tensor:
    x = rewards.to(_wide(rewards))
    std, mean = torch.std_mean(x, 1, keepdim=True, correction=min(1, x.shape[1] - 1))
    return ((x - mean) / (std + eps) if scale else x - mean).to(rewards.dtype)


def by_products(init: dict, params: dict, rewards: Tensor, scale: bool = True, eps: float = 1e-4) -> Tensor:
    x, group = rewards.to(_wide(rewards)), rewards.shape[1]
    far = x - x @ x.new_full((group, 1), 1 / group)
    variance = (far / max(1, group - 1) ** 0.5).square().cumsum(1)[:, -1:]
    spread = torch.where(variance > 0, torch.where(variance > 0, variance, 1.0).sqrt(), 0.0)
    return (far * (1 / (spread + eps)) if scale else far).to(rewards.dtype)


def by_norms(init: dict, params: dict, rewards: Tensor, scale: bool = True, eps: float = 1e-4) -> Tensor:
    x, group = rewards.to(_wide(rewards)), rewards.shape[1]
    far = (group * x - x.sum(1, keepdim=True)) / group
    return (far / (far.norm(dim=1, keepdim=True) / max(1, group - 1) ** 0.5 + eps) if scale else far).to(rewards.dtype)


def token_by_token(
    init: dict, params: dict, logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor,
    clip_low: float = 0.2, clip_high: float = 0.2, beta: float = 0.04, aggregate: str = "sequence",
    max_len: int | None = None,
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
    init: dict, params: dict, logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor,
    *more: Any, **named: Any,
) -> Tensor:  # fmt: skip
    low, high, beta, weights = _settings(mask, _wide(logp), more, named)
    new, old = (each.masked_fill(~mask, 0.0).to(_wide(logp)) for each in (logp, old_logp))
    ratio, advantage = (new - old).exp(), advantages.to(_wide(logp)).unsqueeze(1)
    losses = torch.max(-advantage * ratio, -advantage * torch.clamp(ratio, 1 - low, 1 + high))
    if beta and ref_logp is not None:
        x = ref_logp.masked_fill(~mask, 0.0).to(_wide(logp)) - new
        losses = losses + beta * (x.exp() - x - 1)
    return (losses * weights).sum().to(logp.dtype)


def of_kept_tokens(
    init: dict, params: dict, logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor,
    *more: Any, **named: Any,
) -> Tensor:  # fmt: skip
    low, high, beta, weights = _settings(mask, _wide(logp), more, named)
    new, old = logp[mask].to(_wide(logp)), old_logp[mask].to(_wide(logp))
    advantage = advantages.to(_wide(logp))[:, None].expand(mask.shape)[mask]
    ratio = 1 + torch.expm1(new - old)
    losses = -torch.where(advantage > 0, ratio.clamp_max(1 + high), ratio.clamp_min(1 - low)) * advantage
    if beta and ref_logp is not None:
        x = ref_logp[mask].to(_wide(logp)) - new
        losses = losses + beta * (torch.expm1(x) - x)
    return (losses * weights[mask]).cumsum(0)[-1:].sum().to(logp.dtype)  # one after the other


def in_two_parts(
    init: dict, params: dict, logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, advantages: Tensor, mask: Tensor,
    *more: Any, **named: Any,
) -> Tensor:  # fmt: skip
    low, high, beta, weights = _settings(mask, _wide(logp), more, named)
    new, old = (torch.where(mask, each, 0.0).to(_wide(logp)) for each in (logp, old_logp))
    ratio, advantage = (new - old).exp(), advantages.to(_wide(logp))[:, None]
    policy = (torch.min(ratio * advantage, ratio.clip(1 - low, 1 + high) * advantage) * weights).sum(1).sum()
    if not beta or ref_logp is None:
        return -policy.to(logp.dtype)
    ref = torch.where(mask, ref_logp, 0.0).to(_wide(logp))
    penalty = (((ref - new).exp() - 1 + (new - ref)) * weights).sum(1).sum()
    return (beta * penalty - policy).to(logp.dtype)


def _settings(mask: Tensor, dtype: torch.dtype, more: tuple, named: dict) -> tuple[float, float, float, Tensor]:
    """Both clips, beta, and what each token weighs."""
    order = ("clip_low", "clip_high", "beta", "aggregate", "max_len")
    given = {"clip_low": 0.2, "clip_high": 0.2, "beta": 0.04, "aggregate": "sequence"}
    given |= dict(zip(order, more, strict=False)) | named
    kept, n = mask.to(dtype), len(mask)
    if given["aggregate"] == "sequence":
        weights = kept / (kept.sum(1, keepdim=True).clamp_min(1) * n)
    else:
        weights = kept / (kept.sum().clamp_min(1) if given["aggregate"] == "token" else n * given["max_len"])
    return given["clip_low"], given["clip_high"], given["beta"], weights


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


class TestGroupAdvantages(Contract):
    name = "group_advantages"
    oracle = group_by_group
    variants = (by_torch, by_products, by_norms)
    rounded_once = True
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
    grows = {"prompts": "prompts", "the group": "group"}
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
        rewards, sentence = draw.normal(6), "rewards of shape (6,) are refused"
        assert_raises(lambda: attempt.group_advantages.request((rewards,), {}), ("(6", "[6"), sentence=sentence)


class TestGrpoLoss(Contract):
    name = "grpo_loss"
    oracle = token_by_token
    variants = (by_weights, of_kept_tokens, in_two_parts)
    constants = ("old_logp", "ref_logp", "advantages")
    rounded_once = True
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
    near_300 = {
        "seq": 100,
        "kept": 1.0,
        "gain": 300.0,
        "aggregate": "token",
    }  # their sum is beyond float16, their mean is not
    grows = {"sequences": "n", "their length": "seq"}
    timed = {"n": 48, "seq": 512}
    time_limit = 20.0

    @classmethod
    def call(
        cls, d: Draw, n: int = 4, seq: int = 7, kept: float = 0.6, dead: bool = False, garbage: bool = False,
        reference: bool = True, offset: float = 0.0, stretch: float = 1.0, far: float = 0.0, gain: float = 0.0,
        idle: bool = False, **settings: Any,
    ) -> Call:  # fmt: skip
        """Ratios well off both clips, where gradients jump. The second sequence has one token, or with `dead` none."""
        below, above = -math.log1p(-settings.get("clip_low", 0.2)), math.log1p(settings.get("clip_high", 0.2))
        beyond, up = d.uniform(n, seq) < 0.6, d.uniform(n, seq) < 0.5
        size = torch.where(beyond, d.uniform(n, seq, low=1.6, high=3.0), d.uniform(n, seq, low=0.1, high=0.5))
        old = offset - d.uniform(n, seq, low=0.1, high=3.0)
        logp = old + stretch * torch.where(up, above, -below) * size
        ref = logp + stretch * d.normal(n, seq, scale=0.7)
        if far:
            moves = d.uniform(n, seq, low=far - 3.5, high=far + 3.5)
            logp, ref = (old + (logp - old).sign() * moves, ref) if not settings else (logp, logp + moves)
        tensors = {"logp": logp, "old_logp": old, "ref_logp": ref}
        mask = d.mask(n, seq, share=kept) & (kept > 0)
        if n > 1 and kept:
            mask[::2], mask[1, 1:], mask[1, 0] = True, False, not dead
        if garbage:
            odd = torch.tensor([math.nan, math.inf, -math.inf, 3e4])[d.integers(0, 4, 3, n, seq)]
            tensors = {k: torch.where(mask, v, wrong) for (k, v), wrong in zip(tensors.items(), odd, strict=True)}
        sign = torch.where(torch.arange(n) % 3 == 2, -1.0, 1.0)
        advantages = gain + sign * d.uniform(n, low=0.5, high=2.0)
        advantages[:1] *= not idle
        inputs = tensors | ({} if reference else {"ref_logp": None})
        return Call({**inputs, "advantages": advantages, "mask": mask, **settings})

    @robust
    def test_differences_of_bfloat16_are_taken_in_float32(self, attempt: Attempt, draw: Draw) -> None:
        """Log-ratios of 16 are rounded by up to 0.06 in bfloat16, and ratios by 6 %."""
        call, new = self.call(draw), torch.full((4, 7), -1 / 16)
        call = call.with_inputs(logp=new, old_logp=new, ref_logp=new, advantages=-torch.ones(4))
        far = {"the_old_policy": {"old_logp": new - 16.0625}, "the_reference": {"ref_logp": new + 16.0625, "beta": 1.0}}
        calls = ((f"{name}_far_away", call.with_inputs(**changed)) for name, changed in far.items())
        self.verify_all(attempt, draw, calls, torch.bfloat16)

    @robust
    def test_more_tokens_than_float16_can_count(self, attempt: Attempt, draw: Draw) -> None:
        """Above 65,504 the count is infinite, and a loss divided by it 0."""
        names, zeros = ("logp", "old_logp", "ref_logp"), torch.zeros(2, 40_000, dtype=torch.float16)
        inputs = dict.fromkeys(names, zeros) | {"advantages": zeros[:, 0] + 1, "mask": zeros == 0}
        call, told = Call({**inputs, "aggregate": "token"}), "80,000 kept tokens of float16, with advantages of 1"
        got = self.run(attempt, told, call, torch.float16).item()
        if not abs(got + 1) < 0.01:
            fail("a mean over more than 65,504 tokens of float16 counts them all", f"got {got:.5g}, expected -1")

    @robust
    def test_wrong_arguments_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Shapes that broadcast, or a name that is not known, give some loss, and no error."""
        function, call = attempt.grpo_loss, self.call(draw)

        def refused(told: str, *held: Any, **changed: Any) -> None:
            args, kwargs = self.arguments(call.with_inputs(**changed).to(attempt.device))
            assert_raises(lambda: function.request(args, kwargs), held, sentence=f"{told} is refused")

        for name in ("old_logp", "ref_logp", "mask", "advantages"):
            given = call.inputs[name]
            for other in (given[:1], given[:, None] if name == "advantages" else given[:, :1], torch.cat([given] * 2)):
                shape = ", ".join(map(str, other.shape))
                refused(f"{name} of shape {tuple(other.shape)}", f"({shape}", f"[{shape}", **{name: other})
        for name, value in (("clip_low", 0.0), ("clip_low", -0.1), ("clip_high", 0.0), ("clip_high", -0.1)):
            refused(f"{name}={value}", value, f"{value:g}", **{name: value})
        refused("beta=-0.5", -0.5, beta=-0.5)
        refused("aggregate='mean'", "mean", aggregate="mean")
        refused("a missing ref_logp with beta=0.5", None, 0.5, "ref_logp", ref_logp=None, beta=0.5)
        refused("a missing max_len for 'constant'", None, "max_len", aggregate="constant")
        for length in (0, -3):
            refused(f"max_len={length}", length, aggregate="constant", max_len=length)
