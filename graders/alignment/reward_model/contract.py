"""What `last_token_values` and `reward_loss` must do. The oracles are Python lists, and a logarithm by cases."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Call, Contract, Draw, RoundedOnceContract, robust
from dojo.contracts.training import GARBAGE


def last_of_each_list(values: Tensor, mask: Tensor) -> Tensor:
    return torch.stack(
        [[x for x, real in zip(*row, strict=True) if real][-1] for row in zip(values, mask, strict=True)]
    )


def at_the_largest_place(values: Tensor, mask: Tensor) -> Tensor:
    return values[torch.arange(len(values)), (mask * torch.arange(1, values.shape[1] + 1)).argmax(1)]


def alone_in_a_sum(values: Tensor, mask: Tensor) -> Tensor:
    later = mask.flip(1).cumsum(1).flip(1)
    return values.where(mask & (later == 1), 0.0).sum(1)


class TestLastTokenValues(Contract):
    name = "last_token_values"
    oracle = last_of_each_list
    variants = (at_the_largest_place, alone_in_a_sum)
    holds = {"Last token": ("test_hard",), "Padding": ("test_padding",), "Errors": ("test_another_shape",)}
    cases = {"padded_on_the_right": {"side": "right"}, "padded_on_the_left": {"side": "left"}, "on_both_sides": {}}
    hard_cases = {"holes": {"holes": True}, "more_places_than_bfloat16_counts": {"batch": 2, "seq": 298}}
    representative = (*cases, "more_places_than_bfloat16_counts")

    @classmethod
    def call(
        cls, d: Draw, batch: int = 5, seq: int = 7, side: str = "both", holes: bool = False, garbage: bool = False
    ) -> Call:
        """Rows from a first real token to a last one; the first row is whole, the second has one token."""
        place, middle = torch.arange(seq), seq // 2
        first = d.integers(0, middle + 1, batch, 1) * (side != "right")
        last = torch.where(torch.tensor(side == "left"), seq - 1, d.integers(middle, seq, batch, 1))
        first[0], last[0] = 0, seq - 1
        if batch > 1:
            first[1] = last[1] = {"right": 0, "left": seq - 1}.get(side, middle)
        mask = (place >= first) & (place <= last)
        if holes:
            mask[:, 1 : seq - 1] &= d.mask(batch, seq, share=0.4)[:, 1 : seq - 1]
            mask[0, 0] = mask[1, middle] = True
            mask |= ~mask.any(1, keepdim=True) & (place == last)
        values = d.normal(batch, seq)
        if garbage:
            values = torch.where(mask, values, GARBAGE[d.integers(0, len(GARBAGE), batch, seq)])
        return Call({"values": values, "mask": mask})

    @robust
    def test_padding_reaches_neither_results_nor_gradients(self, attempt: Attempt, draw: Draw) -> None:
        """Nothing was computed for padding, and a product with 0 keeps its nan."""
        cases = ((side, self.call(draw, side=side, garbage=True)) for side in ("left", "right"))
        self.verify_all(attempt, draw, cases, gradients=True)

    @robust
    def test_another_shape_of_the_mask_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """One row's mask broadcasts, and every row gets the token of the first."""
        call = self.call(draw)
        self.refuses_each(attempt, call, mask=(call.inputs["mask"][:1], call.inputs["mask"][:, :1]))


def by_cases(chosen: Tensor, rejected: Tensor, margin: Tensor | None) -> Tensor:
    gap = chosen - rejected - (0 if margin is None else margin)
    return torch.stack([torch.log1p((-g.abs()).exp()) - g.clamp_max(0) for g in gap]).sum() / len(gap)


def by_softplus(chosen: Tensor, rejected: Tensor, margin: Tensor | None) -> Tensor:
    return F.softplus(rejected - chosen if margin is None else rejected - (chosen - margin)).mean()


def of_two_classes(chosen: Tensor, rejected: Tensor, margin: Tensor | None) -> Tensor:
    chosen = chosen if margin is None else chosen - margin
    return F.cross_entropy(torch.stack([chosen, rejected], -1), torch.zeros_like(chosen, dtype=torch.long))


class TestRewardLoss(RoundedOnceContract):
    name = "reward_loss"
    oracle = by_cases
    variants = (by_softplus, of_two_classes)
    holds = {"Large gaps": ("test_hard_cases",)}
    cases = {"without_a_margin": {}, "with_margins": {"margins": True}}
    hard_cases = {
        "gaps_of_2000": {
            "chosen": torch.tensor([2e3, -1e3, 60.0, 0.0]),
            "rejected": torch.tensor([0.0, 1e3, 0.0, 120.0]),
        },
        # Half precision holds each of the three, and not the difference of the first two.
        "a_margin_as_wide_as_the_gap": {
            "chosen": torch.tensor([0.90625]),
            "rejected": torch.tensor([-256.0]),
            "margin": torch.tensor([256.0]),
        },
    }
    representative = (*cases, "a_margin_as_wide_as_the_gap")

    @classmethod
    def call(cls, d: Draw, batch: int = 6, margins: bool = False, **more: Tensor) -> Call:
        rewards = {"chosen": 0.5 + d.normal(batch), "rejected": d.normal(batch)}
        return Call(rewards | ({"margin": d.uniform(batch, low=0.3, high=1.5)} if margins else {}) | more)
