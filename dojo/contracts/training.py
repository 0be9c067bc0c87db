"""What losses and their kin have in common: formulas that are summed in float32, and masks that leave tokens out."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from dojo.contracts.checks.assertions import fail
from dojo.contracts.checks.inputs import Call, Draw
from dojo.contracts.checks.tolerance import Formula, is_floating, named_leaves
from dojo.contracts.function import Contract
from dojo.contracts.harness import robust
from dojo.judge.protocol import mapped
from dojo.judge.proxy import Attempt

GARBAGE = torch.tensor([math.nan, math.inf, -math.inf, 3e4])


class RoundedOnceContract(Contract):
    """What is computed in float32 at least, and rounded once, at the end.

    Its formulas are given tensors in float32 at least, and what they give is rounded to the dtype of the first of them.
    """

    rounded_once = True

    @classmethod
    def formula(cls, written: Formula) -> Formula:
        narrow = super().formula(written)

        def wide(value: Any) -> Any:
            return value.to(torch.promote_types(value.dtype, torch.float32)) if is_floating(value) else value

        def rounded(init: dict[str, Any], params: dict[str, Tensor], **inputs: Any) -> Any:
            dtype = next(value.dtype for value in named_leaves(inputs).values() if is_floating(value))
            found = narrow(init, mapped(wide, params), **mapped(wide, inputs))
            return mapped(lambda value: value.to(dtype) if is_floating(value) else value, found)

        return rounded


class MaskedLossContract(RoundedOnceContract):
    """A mean over the tokens that a mask keeps, of a policy or a value that may move so far and no further.

    `call` takes the two axes of the mask first, and `kept`, the share of tokens that it keeps. Graded tokens keep off
    every clip: there gradients jump.
    """

    coarse: ClassVar[dict[str, dict[str, Any]]]  # inputs, all entries alike, whose differences bfloat16 cannot hold
    level: ClassVar[dict[str, Any]]  # inputs, all entries alike, for which the loss is `level_loss`
    level_loss: ClassVar[float]

    @classmethod
    def masked(
        cls, d: Draw, tensors: dict[str, Tensor], kept: float, dead: bool, garbage: bool, whole: slice | int = 0
    ) -> dict[str, Tensor]:
        """The tensors, and a mask that keeps all of some rows, and of the second one token, or with `dead` none."""
        batch, seq = next(iter(tensors.values())).shape
        mask = d.mask(batch, seq, share=kept) & (kept > 0)
        if 0 < kept < 1 and batch > 1:
            mask[whole], mask[1, 1:], mask[1, 0] = True, False, not dead
        if garbage:
            odd = GARBAGE[d.integers(0, len(GARBAGE), len(tensors), batch, seq)]
            tensors = {k: torch.where(mask, v, wrong) for (k, v), wrong in zip(tensors.items(), odd, strict=True)}
        return tensors | {"mask": mask}

    @staticmethod
    def moved(d: Draw, shape: tuple[int, int], below: float, above: float) -> Tensor:
        """Small moves and large ones, to either side, well off the edges at -below and above."""
        up, far = d.uniform(*shape) < 0.5, d.uniform(*shape) < 0.6
        size = torch.where(far, d.uniform(*shape, low=1.6, high=3.0), d.uniform(*shape, low=0.1, high=0.5))
        return torch.where(up, above, -below) * size

    @classmethod
    def alike(cls, d: Draw, rows: int, seq: int, given: dict[str, Any]) -> Call:
        """A call that keeps all tokens, with tensors of this number each."""
        made = cls.call(d, rows, seq, kept=1.0)
        tensors = {
            name: torch.full_like(made.inputs[name], value) for name, value in given.items() if name in made.inputs
        }
        return made.with_inputs(**given | tensors)

    @robust
    def test_differences_of_bfloat16_are_taken_in_float32(self, attempt: Attempt, draw: Draw) -> None:
        """Log-ratios of 16 are rounded by up to 0.06 in bfloat16, and values of 100 by more than the clip."""
        calls = ((label, self.alike(draw, 2, 3, given)) for label, given in self.coarse.items())
        self.verify_all(attempt, draw, calls, torch.bfloat16)

    @robust
    def test_more_tokens_than_float16_can_count(self, attempt: Attempt, draw: Draw) -> None:
        """Above 65,504 the count is infinite, and a loss divided by it 0."""
        call = self.alike(draw, 2, 40_000, self.level).cast(torch.float16)
        got = self.run(attempt, "80,000 kept tokens of float16", call, torch.float16).item()
        if not abs(got - self.level_loss) < 0.01:
            seen = f"got {got:.5g}, expected {self.level_loss}"
            fail("a mean over more than 65,504 tokens of float16 counts them all", seen)
