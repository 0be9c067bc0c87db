"""How a check ends: what is asserted of an answer, and how a failure reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NoReturn

import torch
from torch import Tensor

from dojo.contracts.checks.tolerance import error_ratio
from dojo.judge.protocol import ARGUMENTS
from dojo.verdict.axes import axis_names
from dojo.verdict.failures import Fault, NoTensor, Raised
from dojo.verdict.mismatch.comparison import dtype_name
from dojo.verdict.mismatch.describe import describe
from dojo.verdict.types import Failure, Kind, Label, Outcome, Section


class Wrong(Fault):
    """An answer that is not what the contract asks for. `got` and `allowed` let it be compared with a known bug's."""

    def __init__(
        self,
        failure: Failure,
        *pictures: Section,
        got: Any = None,
        expected: Tensor | None = None,
        allowed: Tensor | None = None,
        ratio: Tensor | None = None,
        axes: tuple[str, ...] = (),
        where: str = "",
    ) -> None:
        super().__init__(Outcome.WRONG, failure, *pictures)
        self.got, self.expected, self.allowed = got, expected, allowed
        self.axes, self.where = axes, where
        self.cotangents: Mapping[str, Tensor] = {}  # that gradients were pulled back from, by the result
        self.ratio = ratio  # the error in units of the allowed error, None where none was measured

    @property
    def worst(self) -> float:
        """The largest error in units of the allowed error, 0 where none was measured."""
        return float(self.ratio.max()) if self.ratio is not None and self.ratio.numel() else 0.0


def fail(sentence: str, *facts: str, call: str = "", where: str = "", kind: Kind = Kind.PROMISE) -> NoReturn:
    """End the check: the contract's sentence, what was seen instead, and the call in words where that is not known."""
    raise Wrong(Failure(kind, sentence, facts, inputs=[call] if call else []), where=where)


def too_much(sentence: str, seen: str) -> NoReturn:
    """End the check of what a call costs."""
    raise Fault(Outcome.SLOW, Failure(Kind.PROMISE, sentence, (seen,)))


@contextmanager
def noting(**known: Any) -> Iterator[None]:
    """A context in which any failure also holds what is known of the failing call, by the fields of `Failure`."""
    try:
        yield
    except Fault as fault:
        vars(fault.failure).update(known)
        raise


def stating(names: set[str]) -> AbstractContextManager[None]:
    """A context in which any failure also knows the arguments that the failing call states."""
    return noting(given=names)


def tensor(value: Any, device: str = "cpu") -> Tensor:
    """`value`, once it is sure to be a tensor with data on this device.

    Raises:
        NoTensor: it is none.
        Wrong: it is on another device.
    """
    if not isinstance(value, Tensor):
        raise NoTensor(value)
    if value.device.type != device.partition(":")[0]:
        fail("the result is on the device of the input", f"got it on {value.device}, expected it on {device}")
    return value


def match(
    got: Any,
    expected: Tensor,
    allowed: Tensor | None,
    sentence: str,
    axes: str,
    inputs: Mapping[str, Any] | None = None,
) -> float:
    """Compare a tensor with the oracle's; returns the largest error in units of the allowed error.

    `allowed=None` asks for equality. The dtype is the caller's to check; `inputs` are those of the call, by name.

    Raises:
        Wrong: with facts, and pictures of elements, pattern and map.
    """
    got = tensor(got)
    ratio = None
    if got.shape == expected.shape and got.is_complex() == expected.is_complex():
        ratio = error_ratio(got, expected, None if got.is_complex() else allowed)
        if not ratio.numel() or float(ratio.max()) <= 1:
            return float(ratio.max()) if ratio.numel() else 0.0
    allowed = torch.zeros(expected.shape, dtype=torch.float64) if allowed is None else allowed
    names = axis_names(expected.dim(), axes.split())
    facts, *pictures = describe(got, expected, allowed, ratio, names, inputs or {})
    differ = dtype_name(got) if got.shape == expected.shape else "shape"
    pattern = "".join(each.text for each in pictures if each.label is Label.PATTERN)
    failure = Failure(Kind.COMPARED, sentence, (facts.text,), compared=differ, pattern=pattern)
    raise Wrong(failure, *pictures, got=got, expected=expected, allowed=allowed, ratio=ratio, axes=names)


def assert_raises(call: Callable[[], Any], *values: Any, sentence: str) -> None:
    """The call raises a ValueError, or one derived from it, whose text holds each of `values`; of a tuple, one."""

    def held(value: Any, text: str) -> bool:
        return re.search(rf"(?<!\w)(?<!\d\.){re.escape(str(value))}(?!\w)", text) is not None

    try:
        call()
    except Raised as raised:
        if raised.kind == "NotImplementedError":
            raise
        if "ValueError" not in raised.bases:
            fail(sentence, f"it raised {raised.kind}: {raised.text}", "expected ValueError")
        choices = [value if isinstance(value, tuple) else (value,) for value in values]
        missing = [" or ".join(map(str, each)) for each in choices if not any(held(v, raised.text) for v in each)]
        if missing:
            seen = f"the message does not hold {' or '.join(missing)}: {raised.text!r}"
            fail(f"{sentence} whose message holds the offending values", seen)
        return
    fail(sentence, "nothing was raised")


def assert_state_unchanged(reply: dict) -> None:
    """A call that was watched left global state alone."""
    if ARGUMENTS in reply["changed"]:
        fail("inputs are not modified", f"changed: {ARGUMENTS}")
    if reply["changed"]:
        fail("a call leaves global state alone", f"changed: {', '.join(reply['changed'])}")
