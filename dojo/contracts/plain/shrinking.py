"""The smallest input that still fails: what is told of a failure on text, on tokens, on a program."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Call = TypeVar("Call")
TRIES = 120  # calls of the attempt that one failure may cost; no clock has a say


def smallest(call: Call, fails: Callable[[Call], bool], simpler: Callable[[Call], Iterable[Call]]) -> Call:
    """The call that is left where none of those which are simpler fails any more, or the tries are used up."""
    left = TRIES
    while left:
        for each in simpler(call):
            left -= 1
            if fails(each):
                call = each
                break
            if not left:
                return call
        else:
            return call
    return call


def shorter(sequence: Any) -> Iterator[Any]:
    """The same text, list or tuple without a part of it: first halves, then quarters, at last single entries."""
    size = len(sequence)
    while size:
        size = size // 2 or 1
        for start in range(0, len(sequence), size):
            yield sequence[:start] + sequence[start + size :]
        if size == 1:
            return
