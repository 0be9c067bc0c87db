"""What `average_gradients` must do. The oracle knows no ranks: it is one sum over all tokens, in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Contract, Draw, EachRank, Group, OnRanks, core, fail, robust

Pairs = list[list[list[Tensor | None]]]  # by rank, then by parameter: its value, and its gradient there
SHAPES = ((3, 2), (4,), (2, 3, 2), (5,))
MANY = ((2, 3), (4,), (7,), (3, 3), (2,), (50,), (5,), (1,), (6,), (2, 2), (8,), (3,), (9,), (2, 4), (5,), (4,), (6,))


def parts(gradients: Pairs, num_tokens: list[int]) -> list[list[tuple[Tensor, float]]]:
    """Of each parameter the gradients that count, with their weights, behind zeros."""
    found, total = [], sum(num_tokens)
    for pairs in zip(*gradients, strict=True):
        there = [(grad, n / total) for (_, grad), n in zip(pairs, num_tokens, strict=True) if grad is not None and n]
        found.append([(torch.zeros_like(pairs[0][0]), 0.0), *there])
    return found


def over_all_tokens(gradients: Pairs, num_tokens: list[int]) -> tuple:
    return ([sum(grad * weight for grad, weight in each) for each in parts(gradients, num_tokens)],)


def in_a_ring(gradients: Pairs, num_tokens: list[int]) -> tuple:
    """The sum in another order, as a ring begins it elsewhere."""
    return ([sum(grad * weight for grad, weight in each[::-1]) for each in parts(gradients, num_tokens)],)


def by_rounded_weights(gradients: Pairs, num_tokens: list[int]) -> tuple:
    """Weights in the dtype of the gradients, as products with a number on the device have them."""
    every = parts(gradients, num_tokens)
    return ([sum(grad * torch.tensor(weight, dtype=grad.dtype) for grad, weight in each) for each in every],)


@dataclass(frozen=True)
class Step(Call):
    """A call on all ranks."""

    def describe(self, axes: dict[str, str], device: str) -> str:
        pairs, tokens = self.inputs["gradients"], self.inputs["num_tokens"]
        shapes = ", ".join(str(tuple(value.shape)) for value, _ in pairs[0][:6]) + ", …" * (len(pairs[0]) > 6)
        size = f", bucket_size={self.inputs['bucket_size']}" if "bucket_size" in self.inputs else ""
        return f"ranks with {', '.join(map(str, tokens))} tokens, {pairs[0][0][0].dtype} gradients {shapes}{size}"


class TestAverageGradients(OnRanks, Contract):
    name = "average_gradients"
    through = "left_in_grad"
    oracle = over_all_tokens
    variants = (over_all_tokens, in_a_ring, by_rounded_weights)
    results = ("grads",)
    differentiable = False
    holds = {
        "Buckets": ("test_gradients_travel",),
        "Missing gradients": ("test_a_missing",),
        "Empty rank": ("test_an_empty",),
        "Half precision": ("test_half_precision", "test_large_counts"),
        "Same bits": ("test_values_match",),
        "Parameters": ("test_inputs_and", "test_each_call"),
    }
    cases = {
        "two_ranks": {},
        "four_ranks": {"counts": (2, 7, 1, 30)},
        "as_many_tokens_everywhere": {"counts": (5, 5, 5)},
        "several_buckets": {"counts": (9, 1), "bucket_size": 12},
        "one_rank": {"counts": (4,)},
    }
    more_shapes = {"a_number": {"shapes": ((), (1,), ())}, "many_axes": {"shapes": ((2, 1, 3, 2), (1, 1, 1))}}
    grows = {"entries": "entries"}
    memory_in = "entries"
    representative = ("four_ranks", "several_buckets")
    timed = {"entries": 40_000}
    time_limit = 8.0

    @classmethod
    def complete(cls) -> None:
        cls.signature = replace(cls.signature, inputs=("gradients", *cls.signature.inputs[1:]))  # see `left_in_grad`
        super().complete()

    @classmethod
    def call(
        cls, d: Draw, counts: tuple = (1, 3), shapes: tuple = SHAPES, entries: int = 0, missing: tuple | list = (),
        **bucket_size: int,
    ) -> Call:  # fmt: skip
        """`missing` are (rank, parameter) where there is no gradient."""
        shapes = ((entries, 2), (entries,)) if entries else shapes
        values = [d.normal(*shape) for shape in shapes]
        gradients = [
            [[v.clone(), None if (rank, i) in missing else d.normal(*v.shape)] for i, v in enumerate(values)]
            for rank in range(len(counts))
        ]
        given = {"gradients": EachRank(gradients), "group": Group(len(counts)), "num_tokens": EachRank(counts)}
        return Step(given | bucket_size)

    @core
    def test_gradients_travel_in_buckets(self, attempt: Attempt, draw: Draw) -> None:
        # Under the default size all would be one bucket; with 60 a bucket may hold the largest gradient and others.
        for shapes, size in ((MANY, 40), (MANY[::-1], 60), (MANY, 1000)):
            call = self.call(draw, shapes=shapes, bucket_size=size)
            numbers = [math.prod(shape) for shape in shapes]
            whole, largest = sum(numbers), max(size, *numbers)
            told = f"{len(shapes)} gradients of {whole} numbers, the largest of {max(numbers)}, bucket_size={size}"
            with self.case_context(attempt, told, call):
                self.ready(attempt, call).request(*self.arguments(call))
                ((*calls,),) = attempt.calls
                sent = [each["numbers"] for each in calls]
                seen = f"calls of {', '.join(map(str, sent[:20]))}{', …' * (len(sent) > 20)} numbers"
                if others := {each["operation"] for each in calls} - {"all_reduce"}:
                    fail("gradients travel by all_reduce alone", f"used: {', '.join(sorted(others))}")
                if len(sent) > (most := 2 * whole // size + 3):
                    fail(f"there are at most 2 * {whole} / {size} + 3 = {most} calls", f"{len(sent)} {seen}")
                if max(sent, default=0) > largest + 1:
                    fail(f"no call is larger than a bucket, or the largest gradient, of {largest} numbers", seen)
                if not whole < sum(sent) <= whole + len(sent):
                    fail("each gradient is sent once, beside counts, and nothing else is", seen, f"{sum(sent)} in all")

    @robust
    def test_a_missing_gradient_counts_as_zeros(self, attempt: Attempt, draw: Draw) -> None:
        """An expert, or a branch, got no token on one rank: the others wait in a call that it does not make."""
        for dtype, size, *missing in (
            (torch.float32, 1000, (1, 0)),
            (torch.float32, 8, (0, 0), (0, 1), (0, 2), (0, 3)),
            (torch.bfloat16, 1000, (1, 2), (2, 2)),
        ):
            told = f"no gradient of {', '.join(f'{which} on rank {rank}' for rank, which in missing)}"
            call = self.call(draw, (1, 3, 8), missing=missing, bucket_size=size)
            self.verify(attempt, draw, told, call, dtype)

    @robust
    def test_an_empty_rank_adds_nothing(self, attempt: Attempt, draw: Draw) -> None:
        """All prompts of one rank were masked: its mean over nothing is nan, and the weights of all are after it."""
        for counts in ((0, 5, 2), (4, 0, 0)):
            call = self.call(draw, counts)
            for garbage in (1.0, math.nan):
                spoilt = EachRank(
                    [[value, grad if n else grad * garbage] for value, grad in pairs]
                    for pairs, n in zip(call.inputs["gradients"], counts, strict=True)
                )
                self.verify(attempt, draw, f"an empty rank holds {garbage:g}", call.with_inputs(gradients=spoilt))

    @robust
    def test_large_counts_are_exact_in_half_precision(self, attempt: Attempt, draw: Draw) -> None:
        """A batch of 100,000 tokens is more than float16 holds: weights are 0, or gradients inf."""
        for counts in ((100_000, 99_999), (100_000, 1, 2)):
            for dtype in self.half:
                self.verify(attempt, draw, "large counts", self.call(draw, counts), dtype)
