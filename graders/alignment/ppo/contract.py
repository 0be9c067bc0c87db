"""What `ppo_loss` and `value_loss` must do. The oracles take the kept tokens one by one, and decide by cases."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, MaskedLossContract, robust


def token_by_token(logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor, clip: float) -> Tensor:
    losses = []
    for new, old, advantage in zip(logp[mask], old_logp[mask], advantages[mask], strict=True):
        ratio = (new - old).exp()
        too_far = ratio > 1 + clip if advantage > 0 else ratio < 1 - clip
        edge = 1 + clip if advantage > 0 else 1 - clip
        losses.append(-advantage * (edge if too_far else ratio))
    return torch.stack(losses).mean() if losses else 0 * logp[mask].sum()


def value_by_value(values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float) -> Tensor:
    losses = []
    for new, old, target in zip(values[mask], old_values[mask], returns[mask], strict=True):
        near = old + clip if new > old + clip else old - clip if new < old - clip else new
        further = abs(near - target) > abs(new - target)
        losses.append((near - target if further else new - target) ** 2 / 2)
    return torch.stack(losses).mean() if losses else 0 * values[mask].sum()


def of_losses(logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor, clip: float) -> Tensor:
    new, old, advantage = (each.masked_fill(~mask, 0.0) for each in (logp, old_logp, advantages))
    ratio, weight = (new - old).exp(), mask / mask.sum().clamp_min(1)
    return (torch.max(-advantage * ratio, -advantage * ratio.clip(1 - clip, 1 + clip)) * weight).sum()


def by_sign(logp: Tensor, old_logp: Tensor, advantages: Tensor, mask: Tensor, clip: float) -> Tensor:
    ratio, advantage = 1 + torch.expm1(logp[mask] - old_logp[mask]), advantages[mask]
    gain = torch.where(advantage > 0, ratio.clamp_max(1 + clip), ratio.clamp_min(1 - clip)) * advantage
    return -(gain / max(1, len(gain))).cumsum(0)[-1:].sum()  # one after the other


def of_errors(values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float) -> Tensor:
    new, old, target = values[mask], old_values[mask], returns[mask]
    near = torch.clamp(new, old - clip, old + clip)
    return 0.5 * torch.maximum((new - target) ** 2, (near - target) ** 2).sum() / max(1, len(new))


def by_steps(values: Tensor, old_values: Tensor, returns: Tensor, mask: Tensor, clip: float) -> Tensor:
    new, old, target = values[mask], old_values[mask], returns[mask]
    near = old + (new - old).clamp(-clip, clip)
    worst = torch.where((near - target).abs() > (new - target).abs(), near - target, new - target)
    return (worst.square() / 2 / max(1, len(new))).cumsum(0)[-1:].sum()


class ClippedLoss(MaskedLossContract):
    """What both losses have in common."""

    holds = {"Padding": ("test_hard_cases",), "Constants": ("test_constants",)}
    cases = {"rows_of_unequal_length": {}, "all_kept": {"kept": 1.0}, "another_clip": {"clip": 0.4}}
    more_shapes = {"one_token": {"batch": 1, "seq": 1}, "rows_of_one_token": {"seq": 1, "kept": 1.0}}
    hard_cases = {"garbage_where_masked": {"garbage": True}, "nothing_kept": {"kept": 0.0, "garbage": True}}
    timed = {"batch": 48, "seq": 512}
    time_limit = 8.0


class TestPpoLoss(ClippedLoss):
    name = "ppo_loss"
    oracle = token_by_token
    variants = (of_losses, by_sign)
    constants = ("old_logp", "advantages")
    holds = ClippedLoss.holds | {"Bounds": ("test_unlikely_and_far",)}
    far = {"unlikely_tokens": {"offset": -200.0}, "log_ratios_of_12_to_19": {"far": 15.5}}
    coarse = {"rounded_differences": {"logp": -1 / 16, "old_logp": -16.125, "advantages": -1.0}}
    level, level_loss = {"logp": 1.0, "old_logp": 1.0, "advantages": -1.0}, 1.0
    near_300 = {"seq": 100, "kept": 1.0, "gain": 300.0}  # their sum is beyond float16, their mean is not

    @classmethod
    def call(
        cls, d: Draw, batch: int = 3, seq: int = 7, kept: float = 0.6, garbage: bool = False, offset: float = 0.0,
        far: float = 0.0, gain: float = 0.0, **settings: float,
    ) -> Call:  # fmt: skip
        """Ratios well off both clips, where gradients jump, and below 3, where a dual clip would bind."""
        clip = settings.get("clip", 0.2)
        old = offset - d.uniform(batch, seq, low=0.1, high=3.0)
        moves = cls.moved(d, (batch, seq), -math.log1p(-clip), math.log1p(clip))
        if far:
            moves = moves.sign() * d.uniform(batch, seq, low=far - 3.5, high=far + 3.5)
        sign = torch.where(d.uniform(batch, seq) < 0.6, 1.0, -1.0)
        advantages = gain + sign * d.uniform(batch, seq, low=0.5, high=2.0)
        tensors = {"logp": old + moves, "old_logp": old, "advantages": advantages}
        return Call(cls.masked(d, tensors, kept, False, garbage) | settings)

    @robust
    def test_unlikely_and_far_tokens_count_in_full(self, attempt: Attempt, draw: Draw) -> None:
        """A bound takes the gradient away from the tokens that went furthest. verl has two, as its own choice."""
        self.verify_all(
            attempt, draw, ((case, self.call(draw, **how)) for case, how in self.far.items()), gradients=True
        )


class TestValueLoss(ClippedLoss):
    name = "value_loss"
    oracle = value_by_value
    variants = (of_errors, by_steps)
    constants = ("old_values", "returns")
    coarse = {"rounded_differences": {"values": 100.5, "old_values": 100.0, "returns": 102.0}}
    level, level_loss = {"values": 1.0, "old_values": 1.0, "returns": -1.0}, 2.0
    near_300 = {"kept": 1.0, "gap": 300.0}  # the square is beyond float16, half of it is not

    @classmethod
    def call(
        cls, d: Draw, batch: int = 3, seq: int = 7, kept: float = 0.6, garbage: bool = False, gap: float = 0.0,
        **settings: float,
    ) -> Call:  # fmt: skip
        clip = settings.get("clip", 0.2)
        old, up = d.normal(batch, seq), d.uniform(batch, seq) < 0.5
        returns = old + torch.where(up, 1.0, -1.0) * (gap + clip * d.uniform(batch, seq, low=4.0, high=8.0))
        tensors = {"values": old + cls.moved(d, (batch, seq), clip, clip), "old_values": old, "returns": returns}
        return Call(cls.masked(d, tensors, kept, False, garbage) | settings)
