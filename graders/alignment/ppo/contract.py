"""What `ppo_loss` and `value_loss` must do. The oracles take the kept tokens one by one, and decide by cases."""

from __future__ import annotations

import math
from typing import Any, ClassVar

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


def token_by_token(
    init: dict, params: dict, logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor, clip: float = 0.2
) -> Tensor:
    losses = []
    for new, old, advantage in zip(logp[mask], old_logp[mask], advantages[mask], strict=True):
        ratio = (new - old).exp()
        too_far = ratio > 1 + clip if advantage > 0 else ratio < 1 - clip
        edge = 1 + clip if advantage > 0 else 1 - clip
        losses.append(-advantage * (edge if too_far else ratio))
    return torch.stack(losses).mean() if losses else 0 * logp[mask].sum()


def value_by_value(
    init: dict, params: dict, values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float = 0.2
) -> Tensor:
    losses = []
    for new, old, target in zip(values[mask], old_values[mask], returns[mask], strict=True):
        near = old + clip if new > old + clip else old - clip if new < old - clip else new
        further = abs(near - target) > abs(new - target)
        losses.append((near - target if further else new - target) ** 2 / 2)
    return torch.stack(losses).mean() if losses else 0 * values[mask].sum()


def of_losses(
    init: dict, params: dict, logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor, clip: float = 0.2
) -> Tensor:
    new, old, advantage = _kept(mask, logp, old_logp, advantages)
    ratio = torch.exp(new - old)
    losses = torch.maximum(-advantage * ratio, -advantage * torch.clamp(ratio, 1 - clip, 1 + clip))
    return (losses.sum() / max(1, len(losses))).to(logp.dtype)


def by_sign(
    init: dict, params: dict, logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor, clip: float = 0.2
) -> Tensor:
    new, old, advantage = _kept(mask, logp, old_logp, advantages)
    ratio = 1 + torch.expm1(new - old)
    gain = torch.where(advantage > 0, ratio.clamp_max(1 + clip), ratio.clamp_min(1 - clip)) * advantage
    return -(gain / max(1, len(gain))).cumsum(0)[-1:].sum().to(logp.dtype)  # one after the other


def in_place_of_garbage(
    init: dict, params: dict, logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor, clip: float = 0.2
) -> Tensor:
    new, old, advantage = (each.masked_fill(~mask, 0.0).to(_wide(logp)) for each in (logp, old_logp, advantages))
    ratio, weight = (new - old).exp(), mask.to(_wide(logp)) / mask.sum().clamp_min(1)
    return -(torch.min(ratio * advantage, ratio.clip(1 - clip, 1 + clip) * advantage) * weight).sum().to(logp.dtype)


def of_errors(
    init: dict, params: dict, values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float = 0.2
) -> Tensor:
    new, old, target = _kept(mask, values, old_values, returns)
    near = torch.clamp(new, old - clip, old + clip)
    return (0.5 * torch.maximum((new - target) ** 2, (near - target) ** 2).sum() / max(1, len(new))).to(values.dtype)


def by_steps(
    init: dict, params: dict, values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float = 0.2
) -> Tensor:
    new, old, target = _kept(mask, values, old_values, returns)
    near = old + (new - old).clamp(-clip, clip)
    worst = torch.where((near - target).abs() > (new - target).abs(), near - target, new - target)
    return (worst.square() / 2 / max(1, len(new))).cumsum(0)[-1:].sum().to(values.dtype)


def squares_multiplied_out(
    init: dict, params: dict, values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float = 0.2
) -> Tensor:
    new, old, target = (each.masked_fill(~mask, 0.0).to(_wide(values)) for each in (values, old_values, returns))
    errors = new - target, torch.min(torch.max(new, old - clip), old + clip) - target
    weight = 0.5 * mask.to(_wide(values)) / mask.sum().clamp_min(1)
    return (torch.max(errors[0] * errors[0], errors[1] * errors[1]) * weight).sum().to(values.dtype)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)


def _kept(mask: Tensor, *given: Tensor) -> list[Tensor]:
    return [each[mask].to(_wide(each)) for each in given]


class MaskedLoss(Contract):
    """What both losses have in common. Graded tokens keep off every clip: there gradients jump."""

    rounded_once = True
    cases = {
        "rows_of_unequal_length": {},
        "all_kept": {"kept": 1.0},
        "another_clip": {"clip": 0.5},
        "one_row_of_few_tokens": {"batch": 1, "kept": 0.3},
    }
    more_shapes = {"one_token": {"batch": 1, "seq": 1}, "rows_of_one_token": {"seq": 1, "kept": 1.0}}
    hard_cases = {
        "garbage_where_masked": {"garbage": True},
        "a_row_without_tokens": {"dead": True},
        "nothing_kept": {"kept": 0.0},
        "nothing_kept_of_garbage": {"kept": 0.0, "garbage": True},
    }
    grows = {"the batch": "batch", "the sequence": "seq"}
    timed = {"batch": 48, "seq": 512}
    time_limit = 20.0
    coarse: ClassVar[tuple[float, float, float]]  # inputs whose differences, or clips, bfloat16 cannot hold
    of_ones: ClassVar[float]  # the loss of ones, ones and minus ones

    @classmethod
    def masked(
        cls, d: Draw, tensors: dict[str, Tensor], kept: float, dead: bool, garbage: bool, settings: dict[str, float]
    ) -> Call:
        """The call with a mask that keeps all of the first row, and of the second one token, or none."""
        batch, seq = next(iter(tensors.values())).shape
        mask = d.mask(batch, seq, share=kept) & (kept > 0)
        if 0 < kept < 1 and batch > 1:
            mask[0], mask[1, 1:], mask[1, 0] = True, False, not dead
        if garbage:
            odd = torch.tensor([math.nan, math.inf, -math.inf, 3e4])[d.integers(0, 4, len(tensors), batch, seq)]
            tensors = {k: torch.where(mask, v, wrong) for (k, v), wrong in zip(tensors.items(), odd, strict=True)}
        return Call({**tensors, "mask": mask, **settings})

    @staticmethod
    def moved(d: Draw, shape: tuple[int, int], below: float, above: float) -> Tensor:
        """Small moves and large ones, to either side, well off the edges at -below and above."""
        up, far = d.uniform(*shape) < 0.5, d.uniform(*shape) < 0.6
        size = torch.where(far, d.uniform(*shape, low=1.6, high=3.0), d.uniform(*shape, low=0.1, high=0.5))
        return torch.where(up, above, -below) * size

    @robust
    def test_differences_of_bfloat16_are_taken_in_float32(self, attempt: Attempt, draw: Draw) -> None:
        """Log-ratios of 16 are rounded by up to 0.06, and values of 100 by more than the clip."""
        tensors = [torch.full((2, 3), each) for each in self.coarse]
        call = Call(dict(zip(self.signature.inputs, (*tensors, tensors[0] < 1e3), strict=False)))
        self.verify(attempt, draw, "rounded_differences", call, torch.bfloat16)

    @robust
    def test_more_tokens_than_float16_can_count(self, attempt: Attempt, draw: Draw) -> None:
        """Above 65,504 the count is infinite, and a loss divided by it 0."""
        ones = torch.ones(2, 40_000, dtype=torch.float16)
        call = Call(dict(zip(self.signature.inputs, (ones, ones, -ones, ones > 0), strict=False)))
        got = self.run(attempt, "80,000 kept tokens of float16", call, torch.float16).item()
        if not abs(got - self.of_ones) < 0.01:
            seen = f"got {got:.5g}, expected {self.of_ones}"
            fail("a mean over more than 65,504 tokens of float16 counts them all", seen)

    @robust
    def test_wrong_arguments_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Advantages of shape (batch,) or (batch, 1) broadcast to a loss of the wrong tokens, and no error."""
        function, call = getattr(attempt, self.name), self.call(draw)
        for name in self.signature.inputs[1:4]:
            given = call.inputs[name]
            for other in (given[:, :1], given[0], given.mT, torch.cat([given, given[:, :1]], 1)):
                args, shape = tuple((call.inputs | {name: other}).values()), ", ".join(map(str, other.shape))
                held, sentence = (f"({shape}", f"[{shape}"), f"{name} of shape {tuple(other.shape)} is refused"
                assert_raises(lambda args=args: function.request(args, {}), held, sentence=sentence)
        for clip in (0.0, -0.2):
            args, held = tuple(call.inputs.values()), (clip, f"{clip:g}")
            assert_raises(
                lambda a=args, c=clip: function.request((*a, c), {}), held, sentence=f"clip={clip} is refused"
            )


class TestPpoLoss(MaskedLoss):
    name = "ppo_loss"
    oracle = token_by_token
    variants = (of_losses, by_sign, in_place_of_garbage)
    constants = ("old_logp", "advantages")
    hard_cases = MaskedLoss.hard_cases | {
        "unlikely_tokens": {"offset": -200.0},
        "ratios_far_from_one": {"stretch": 6.0, "clip": 0.5},
        "log_ratios_of_12_to_19": {"far": 15.5},
        "advantages_of_0": {"idle": True},
    }
    coarse, of_ones = (-1 / 16, -16.125, -1.0), 1.0
    near_300 = {"seq": 100, "kept": 1.0, "gain": 300.0}  # their sum is beyond float16, their mean is not

    @classmethod
    def call(
        cls, d: Draw, batch: int = 3, seq: int = 7, kept: float = 0.6, dead: bool = False, garbage: bool = False,
        offset: float = 0.0, stretch: float = 1.0, far: float = 0.0, gain: float = 0.0,
        idle: bool = False, **settings: float,
    ) -> Call:  # fmt: skip
        clip = settings.get("clip", 0.2)
        old = offset - d.uniform(batch, seq, low=0.1, high=3.0)
        moves = stretch * cls.moved(d, (batch, seq), -math.log1p(-clip), math.log1p(clip))
        if far:
            moves = moves.sign() * d.uniform(batch, seq, low=far - 3.5, high=far + 3.5)
        sign = torch.where(d.uniform(batch, seq) < 0.6, 1.0, -1.0)
        advantages = gain + sign * d.uniform(batch, seq, low=0.5, high=2.0)
        advantages[:, ::2] *= not idle
        tensors: dict[str, Any] = {"logp": old + moves, "old_logp": old, "advantages": advantages}
        return cls.masked(d, tensors, kept, dead, garbage, settings)


class TestValueLoss(MaskedLoss):
    name = "value_loss"
    oracle = value_by_value
    variants = (of_errors, by_steps, squares_multiplied_out)
    constants = ("old_values", "returns")
    near_300 = {"kept": 1.0, "gap": 300.0}  # the square is beyond float16, half of it is not
    coarse, of_ones = (100.5, 100.0, 102.0), 2.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 3, seq: int = 7, kept: float = 0.6, dead: bool = False, garbage: bool = False,
        gap: float = 0.0, **settings: float,
    ) -> Call:  # fmt: skip
        clip = settings.get("clip", 0.2)
        old = d.normal(batch, seq)
        sign = torch.where(d.uniform(batch, seq) < 0.5, 1.0, -1.0)
        returns = old + sign * (gap + clip * d.uniform(batch, seq, low=4.0, high=8.0))
        values = old + cls.moved(d, (batch, seq), clip, clip)
        tensors = {"values": values, "old_values": old, "returns": returns}
        return cls.masked(d, tensors, kept, dead, garbage, settings)
