"""What the house rules ask of a function of plain values: a mask, a bias, a count, a tokenizer's merges.

Its checks are named after the claims that a grader makes. What a grader states besides `name`:

- `oracle(*args, **kwargs)`, which gives nested lists, text, a number or a dict of them; floats may be off by
  `relative` and `absolute`;
- `claims`, a sentence of the contract and the calls that show it, in the core tier; `edges`, the same in the robust
  tier; `refused`, calls that must raise a ValueError whose message holds all their numbers, or those beside the call;
- `simpler`, which gives calls that are a step simpler than one: a failure is then told by the simplest that fails;
- `growth`, the calls whose operation count may not grow, by a word for what does; `timed` and `time_limit`;
- `results`, the names of several results in their order: tensors, and numbers beside them.

The dtype and the axes of the result, and the names of the arguments, stand in the master's signature. A call is a tuple
of arguments in their order; those that have no position are given by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from math import prod
from typing import Any, ClassVar

import torch
from torch import Tensor

from dojo.contracts.checks.assertions import (
    Wrong,
    assert_raises,
    assert_state_unchanged,
    fail,
    match,
    noting,
    stating,
    tensor,
    too_much,
)
from dojo.contracts.checks.inputs import Draw
from dojo.contracts.checks.operations import assert_constant_op_count, operation_count
from dojo.contracts.checks.timing import Reading, assert_time_within, clocked, race
from dojo.contracts.harness import HouseRules, bare, core, fast, robust
from dojo.contracts.plain.shrinking import smallest
from dojo.judge.protocol import Args, Kwargs, Message, tensors_in
from dojo.judge.proxy import Attempt
from dojo.verdict.failures import Died, Fault, NoTensor
from dojo.verdict.mismatch import plain
from dojo.verdict.types import Failure, Kind, Label, Section

DTYPES = {"Float": torch.float32, "Bool": torch.bool, "Int": torch.int64}
Calls = Iterable[Args] | Callable[[Draw], Iterable[Args]]


class GeneratorContract(HouseRules):
    """A function of plain values that makes a tensor, or a plain answer: numbers, text, lists and dicts of them."""

    oracle: ClassVar[Callable[..., Any]]
    claims: ClassVar[dict[str, Calls]]
    edges: ClassVar[dict[str, Calls]] = {}
    refused: ClassVar[dict[str, Calls | dict[Args, Args]]] = {}
    growth: ClassVar[dict[str, Callable[[int], Args]]] = {}
    growth_sizes: ClassVar[tuple[int, int]] = (4, 40)
    timed: ClassVar[Args] = ()
    time_limit: ClassVar[float] = 40.0
    ulps: ClassVar[float] = 32.0  # by which a float32 may be off
    relative: ClassVar[float] = 0.0  # by which a float of a plain answer may be off
    absolute: ClassVar[float] = 0.0
    simpler: ClassVar[Callable[[Args], Iterable[Args]] | None] = None
    results: ClassVar[tuple[str, ...]] = ()
    by_position: ClassVar[int] = 0  # of the arguments, the first that are made in the worker and have no name there
    makes_tensor: ClassVar[bool] = False
    makes_floats: ClassVar[bool] = False  # a tensor of them
    needs: ClassVar[dict[str, str]] = {
        "test_operation_count_does_not_grow": "growth",
        "test_time_stays_near_the_reference": "timed",
        "test_no_tensor_is_much_larger_than_the_result": "makes_tensor",
        "test_each_call_stands_alone": "makes_tensor",
        "test_a_default_dtype_of_float64_or_bfloat16_changes_nothing": "makes_floats",
        "test_stays_in_pytorch": "makes_tensor",
    }

    @classmethod
    def complete(cls) -> None:
        cls.makes_tensor, cls.makes_floats = bool(cls.signature.kind), cls.signature.kind == "Float"
        tables = ((core, cls.claims, cls.agrees), (robust, cls.edges, cls.agrees), (robust, cls.refused, cls.refuses))
        for tier, claims, judge in tables:
            for claim, calls in claims.items():
                setattr(cls, f"test_{claim.translate(_UNDERSCORES)}", tier(_check(claim, calls, judge)))

    def arguments(self, attempt: Attempt, call: Args) -> Args:
        """The call as the worker gets it; a kata whose arguments the attempt builds overrides this."""
        return call

    def given(self, call: Args, by_name: int = 0) -> tuple[Args, Kwargs]:
        """The arguments by position and by name: the last `by_name`, and those that have no position."""
        count = min(len(call) - by_name, len(self.signature.inputs))
        names = (*self.signature.inputs, *self.signature.keywords)
        return call[:count], dict(zip(names[count:], call[count:], strict=False))

    def agrees(self, attempt: Attempt, claim: str, call: Args, got: Any = None, by_name: int = 0) -> None:
        """One result: its kind, dtype, shape and every element; the last `by_name` arguments are given by name."""
        args, named = self.given(call, by_name)
        if got is None:
            got = self.answer(attempt, *self.given(self.arguments(attempt, call), by_name))
        exact, words = self.expected(call, got), self.words(args, named)
        if self.results:
            if not isinstance(got, (tuple, list)) or len(got) != len(self.results):
                sentence = f"the results are {', '.join(self.results)}, in a tuple"
                fail(sentence, f"got a {type(got).__name__}", call=words)
            for name, value, expected in zip(self.results, got, exact, strict=True):
                if isinstance(expected, float):
                    self.same_number(name, value, expected, claim, words)
                else:
                    self.same_tensor(tensor(value), expected, claim, words)
        elif self.makes_tensor:
            self.same_tensor(tensor(got), exact, claim, words)
        elif got is None and exact is not None:
            raise NoTensor(got)
        elif plain.first_difference(got, exact, self.near):
            found = (words, got, exact, []) if by_name else self.simplest(attempt, call, got, exact)
            raise self.differing(claim, got, *found)

    def differing(self, claim: str, got: Any, words: str, shown: Any, exact: Any, pictures: list[Section]) -> Wrong:
        """A wrong plain answer, told by the one that is shown of it."""
        difference = plain.first_difference(shown, exact, self.near)
        assert difference is not None
        facts, *neighbours = plain.sections(shown, exact, difference)
        pictures = [*neighbours, *pictures]
        pattern = "".join(each.text for each in pictures if each.label is Label.PATTERN)
        failure = Failure(Kind.COMPARED, claim, (facts.text,), inputs=[words], pattern=pattern)
        failure.compared = "elements" if pictures else ""  # a number alone has none
        return Wrong(failure, *pictures, got=got, where=claim)

    def expected(self, call: Args, got: Any, reference: Any = None) -> Any:
        """What is right: the reference's answer where it is given; a kata in which several are right overrides this."""
        return type(self).oracle(*call) if reference is None else reference

    def words(self, args: Args, kwargs: Kwargs) -> str:
        """A call as it is told."""
        texts = [repr(value) if isinstance(value, float) else plain.shown(value) for value in (*args, *kwargs.values())]
        parts = [*texts[: len(args)], *map("=".join, zip(kwargs, texts[len(args) :], strict=True))]
        return f"{self.name}({', '.join(parts)})"

    def answer(self, attempt: Attempt, args: Args, kwargs: Kwargs) -> Any:
        """What the attempt gives for these arguments; a kata of objects overrides this."""
        return self.reply(attempt, args, kwargs)["value"]

    def reply(self, attempt: Attempt, args: Args, kwargs: Kwargs, **more: Any) -> Message:
        """The worker's whole answer to a call; a kata of a driver overrides this."""
        return getattr(attempt, self.name).request(args, kwargs, **more)

    def asked(self, attempt: Attempt, call: Args) -> Any:
        """What the attempt gives for a call."""
        return self.answer(attempt, *self.given(self.arguments(attempt, call)))

    @property
    def near(self) -> plain.Near:
        """Which floats are near enough."""
        return plain.within(self.relative, self.absolute)

    def simplest(self, attempt: Attempt, call: Args, got: Any, exact: Any) -> tuple[str, Any, Any, list[Section]]:
        """Of the simplest call that gives a wrong plain answer, where a kata has any: its words, the answer, what is
        right, and pictures of both.
        """
        found, dead = (got, exact), False

        def fails(each: Args) -> bool:
            nonlocal found, dead
            if dead:
                return False
            try:
                answer = self.asked(attempt, each)
                pair = answer, self.expected(each, answer)
            except (Fault, ValueError) as fault:  # what is refused, or raises, is another failure
                dead = isinstance(fault, Died)
                return False
            wrong = plain.first_difference(*pair, self.near) is not None
            found = pair if wrong else found
            return wrong

        simpler = type(self).simpler
        least = smallest(call, fails, simpler) if simpler else call
        words = self.words(*self.given(least)) + (", the smallest that fails" if least is not call else "")
        return words, *found, self.picture(least, *found)

    def picture(self, call: Args, got: Any, exact: Any) -> list[Section]:
        """What else shows the difference of two answers; a kata that has a picture of its own overrides this."""
        return []

    def same_number(self, name: str, got: Any, exact: float, claim: str, call: str) -> None:
        """A number beside the tensors, as near as a float32 would be."""
        if isinstance(got, bool) or not isinstance(got, (int, float)):
            fail(f"{name} is a float", f"got a {type(got).__name__}", call=call)
        if not abs(got - exact) <= self.ulps * torch.finfo(torch.float32).eps * abs(exact):
            fail(claim, f"{name}: got {got!r}, expected {exact!r}", call=call)

    def same_tensor(self, got: Tensor, exact: Any, claim: str, call: str) -> None:
        """Dtype, shape and every element of a tensor."""
        dtype = DTYPES[self.signature.kind]
        if got.dtype is not dtype:
            fail(f"the result is {bare(dtype)}", f"got {bare(got.dtype)}", call=call)
        wide = torch.float64 if dtype.is_floating_point else dtype
        expected = exact.to(wide) if isinstance(exact, Tensor) else torch.tensor(exact, dtype=wide)
        allowed = self.ulps * torch.finfo(dtype).eps * expected.abs() if dtype.is_floating_point else None
        with noting(inputs=[call]):
            match(got, expected, allowed, claim, self.axes["result"])

    def refuses(self, attempt: Attempt, claim: str, call: Args) -> None:
        """A call that raises a ValueError whose text holds the offending numbers."""
        offending = self.refused[claim]
        values = offending[call] if isinstance(offending, dict) else call
        try:
            assert_raises(lambda: self.asked(attempt, call), *values, sentence=claim)
        except Fault as fault:
            fault.failure.inputs.append(self.words(*self.given(call)))
            raise

    @property
    def base(self) -> Args:
        """The longest of the calls that show a claim."""
        return self.longest[1]

    @property
    def longest(self) -> tuple[str, Args]:
        """The same with its claim."""
        shown = [(claim, call) for claim, calls in self.claims.items() if not callable(calls) for call in calls]
        return max(shown, key=lambda each: len(each[1]))

    @core
    def test_arguments_may_be_given_by_name(self, attempt: Attempt) -> None:
        self.agrees(attempt, *self.longest)  # what is wrong by position too has nothing to do with names
        for by_name in range(1, len(self.base) + 1 - self.by_position):
            self.agrees(attempt, "arguments may be given by name", self.base, by_name=by_name)

    @core
    def test_stays_in_pytorch(self, attempt: Attempt) -> None:
        args, named = self.given(self.arguments(attempt, self.base))
        foreign = getattr(attempt, self.name).observe(*args, **named)["foreign"]
        if foreign:
            fail("the computation stays in PyTorch", f"it was handed a {foreign[0]}")

    @robust
    def test_global_state_is_left_alone(self, attempt: Attempt) -> None:
        """The caller's lists, its next random numbers, or the default dtype, change behind its back."""
        assert_state_unchanged(self.reply(attempt, *self.given(self.arguments(attempt, self.base)), watch=True))

    @robust
    def test_each_call_stands_alone(self, attempt: Attempt) -> None:
        """A mask or bias that a caller changed in place is given out changed to the next caller."""
        args, named = self.given(self.arguments(attempt, self.base))
        staged = getattr(attempt, self.name).stage(*args, **named)
        staged.overwrite_result(staged.go())
        claim = "a result that was overwritten is not given out again"
        self.agrees(attempt, claim, self.base, staged.fetch(staged.go()))

    @robust
    def test_a_default_dtype_of_float64_or_bfloat16_changes_nothing(self, attempt: Attempt) -> None:
        """Libraries set the default dtype while they build a model in half precision: tables keep 8 bits for good."""
        function = getattr(attempt, self.name)
        calls = [call for calls in self.claims.values() if not callable(calls) for call in calls]
        for default, call in product((torch.float64, torch.bfloat16), calls):
            args, kwargs = self.given(self.arguments(attempt, call))
            got = function.ask(do="under", target=function.target, default=default, args=args, kwargs=kwargs)["value"]
            with noting(dtype=bare(default)):
                self.agrees(attempt, f"the default dtype {bare(default)} changes nothing", call, got)

    @fast
    def test_operation_count_does_not_grow(self, attempt: Attempt) -> None:
        function = getattr(attempt, self.name)
        for axis, make in self.growth.items():

            def count(size: int, make: Callable[[int], Args] = make) -> int:
                args, named = self.given(make(size))
                return operation_count(function.observe(*args, **named))

            assert_constant_op_count(axis, self.growth_sizes, count)

    @fast
    def test_no_tensor_is_much_larger_than_the_result(self, attempt: Attempt) -> None:
        """Twice the bytes of the result in float64, were its last two axes as long as the longer of them."""
        function, (args, named) = getattr(attempt, self.name), self.given(self.timed or self.base)
        got = function.request(args, named)["value"]
        shape = next(iter(tensors_in(got)), torch.empty(0)).shape if self.results else tensor(got).shape
        square = prod(shape[:-2]) * max(shape[-2:]) ** min(2, len(shape))
        largest = max(function.observe(*args, **named)["largest"].values(), default=0)
        if largest > 2 * 8 * square:
            seen = f"a tensor has {largest} bytes, a result of {shape}"
            too_much("no tensor is much larger than the result", seen)

    @fast
    def test_time_stays_near_the_reference(self, attempt: Attempt, reference: Attempt, draw: Draw) -> None:
        mine, theirs = self.timer(attempt), self.timer(reference)
        assert_time_within(self.time_limit, race(mine, theirs, self.time_limit, draw.random()))
        if not self.makes_tensor:
            got, exact = (self.asked(each, self.timed) for each in (attempt, reference))
            if plain.first_difference(got, self.expected(self.timed, got, exact), self.near):
                fail("the answer of a timed call is right", "it differs from the reference's")

    def timer(self, attempt: Attempt) -> Callable[[], Reading]:
        """A function that times one call; a result that is a tensor stays in the worker."""
        if not self.makes_tensor:
            return lambda: clocked(attempt, lambda: self.asked(attempt, self.timed))
        args, named = self.given(self.timed)
        staged = getattr(attempt, self.name).stage(*args, **named)

        def run() -> Reading:
            spent, wall, _ = staged.timed()
            return spent, wall

        run()
        return run


IN_PRACTICE = {  # what goes wrong where a robust check of this kind fails
    "agrees": "It is right for the sizes that one tries first, and wrong for some that a model has.",
    "refuses": "A wrong argument goes on without a word, and fails, or misleads, far from its cause.",
}
_UNDERSCORES = str.maketrans({" ": "_", "-": "_", ",": None, ".": None})


def _check(claim: str, calls: Calls, judge: Callable[..., None]) -> Callable[..., None]:
    def check(self: GeneratorContract, attempt: Attempt, draw: Draw) -> None:
        for call in calls(draw) if callable(calls) else calls:
            args, named = self.given(call)
            with stating({*self.signature.inputs[: len(args)], *named}):
                judge(self, attempt, claim, call)

    check.__doc__ = IN_PRACTICE[judge.__name__]
    return check
