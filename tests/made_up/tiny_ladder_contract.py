"""What the tiny ladder must do."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from dojo.contracts import Attempt, Draw, core, fail, robust, tensor


def multiples(attempt: Attempt, draw: Draw, times: int, *given: int) -> None:
    x = draw.normal(3, 4)
    got = tensor(attempt.twice(x, *given), attempt.device)
    if got.shape != x.shape or not bool((got == times * x).all()):
        fail("the result is so many times x", f"{times} times")


class TestTwice:
    name, stage = "twice", 1
    holds: ClassVar = {"Shape": ("test_it",)}

    @core
    def test_it_doubles(self, attempt: Attempt, draw: Draw) -> None:
        multiples(attempt, draw, 2)


class TestTimes:
    name, stage = "twice", 2
    holds: ClassVar = {"Default": ("test_",)}

    @core
    def test_it_multiplies(self, attempt: Attempt, draw: Draw) -> None:
        multiples(attempt, draw, 5, 5)

    @robust
    def test_zero_is_a_number_of_times(self, attempt: Attempt, draw: Draw) -> None:
        """`times or 2` takes 0 for nothing given."""
        multiples(attempt, draw, 0, 0)


class TestLayer:
    name, stage = "Times", 3
    holds: ClassVar = {"Parameters": ("test_",)}

    @core
    def test_it_is_a_layer(self, attempt: Attempt, draw: Draw) -> None:
        x: Tensor = draw.normal(3)
        got = tensor(attempt.Times(3)(x), attempt.device)
        if not bool((got == 3 * x).all()):
            fail("the layer is three times x", "it is not")
