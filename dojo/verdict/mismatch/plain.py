"""Where two plain answers differ, in words: numbers, text, and nested lists and dicts of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dojo.verdict.types import Label, Section

AROUND = 3  # neighbours shown on either side of the first difference
WIDTH = 30  # of a column in which they are shown

Near = Callable[[float, float], bool]


class _Nothing:
    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()  # where one of two lists has ended


@dataclass(frozen=True)
class Difference:
    """The first place that differs: the way to it, and what stands there."""

    path: tuple[int | str, ...]
    got: Any
    expected: Any


def exactly(got: float, expected: float) -> bool:
    """Floats that are equal, or both nan."""
    return got == expected or (math.isnan(got) and math.isnan(expected))


def within(relative: float, absolute: float) -> Near:
    """Floats that differ by no more than this; infinities are equal to themselves."""
    return lambda got, expected: (
        exactly(got, expected) or math.isclose(got, expected, rel_tol=relative, abs_tol=absolute)
    )


def first_difference(
    got: Any, expected: Any, near: Near = exactly, path: tuple[int | str, ...] = ()
) -> Difference | None:
    """Where `got` is not what is expected, in the order of the latter; None where all is as it should be.

    A list is as good as a tuple, and an int as good as a float of its value; a bool is neither.
    """
    here = Difference(path, got, expected)
    if isinstance(expected, (list, tuple)):
        if not isinstance(got, (list, tuple)):
            return here
        for number in range(max(len(got), len(expected))):
            mine, theirs = (each[number] if number < len(each) else NOTHING for each in (got, expected))
            if found := first_difference(mine, theirs, near, (*path, number)):
                return found
        return None
    if isinstance(expected, dict):
        if not isinstance(got, dict):
            return here
        for key in [*expected, *(key for key in got if key not in expected)]:
            if found := first_difference(got.get(key, NOTHING), expected.get(key, NOTHING), near, (*path, key)):
                return found
        return None
    if type(expected) is float and type(got) in (int, float):
        return None if near(float(got), expected) else here
    return None if type(got) is type(expected) and got == expected else here


def sections(got: Any, expected: Any, difference: Difference) -> list[Section]:
    """What is said of it: both values, the way to them, and their neighbours."""
    mine, theirs = shown(difference.got), shown(difference.expected)
    if mine == theirs:  # then it is their kinds that differ
        mine, theirs = (f"the {type(each).__name__} {each!r}" for each in (difference.got, difference.expected))
    facts = [f"got {mine}, expected {theirs}"]
    for each in range(len(difference.path)):
        above = difference.path[: len(difference.path) - each - 1]
        pair = [_at(value, above) for value in (got, expected)]
        if each == 0:
            facts[0] = f"{way(difference.path)}: {facts[0]}"
        if all(isinstance(value, (list, tuple)) for value in pair) and len(pair[0]) != len(pair[1]):
            facts.append(f"{way(above) or 'the result'}: {len(pair[0])} long, expected {len(pair[1])}")
    found = [Section(Label.FACTS, "\n".join(facts))]
    if table := _neighbours(got, expected, difference):
        found.append(Section(Label.MAP, table))
    return found


def way(path: Sequence[int | str]) -> str:
    """The way to a place as Python writes it: `[3][1]`, `['total']`."""
    return "".join(f"[{step!r}]" for step in path)


def shown(value: Any, width: int = 200) -> str:
    """A value as it is told: floats to six digits, so that the last places make no other failure of it."""
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        inside = ", ".join(shown(each, width) for each in value[:width])
        return _cut(f"[{inside}]" if isinstance(value, list) else f"({inside}{',' * (len(value) == 1)})", width)
    if isinstance(value, Mapping) or value is NOTHING or isinstance(value, (str, int)) or value is None:
        return _cut(repr(value), width)
    return f"a {type(value).__name__}"


def _neighbours(got: Any, expected: Any, difference: Difference) -> str:
    """Entries, or pieces of text, around the first difference, side by side."""
    if isinstance(difference.got, str) and isinstance(difference.expected, str):
        pairs = zip(difference.got, difference.expected, strict=False)
        at = next((n for n, (a, b) in enumerate(pairs) if a != b), min(map(len, (difference.got, difference.expected))))
        start = max(0, at - 20)
        texts = {"got": difference.got, "expected": difference.expected}
        return "\n".join(f"{who:>8} … {text[start : at + 20]!r}, from character {start}" for who, text in texts.items())
    if not difference.path or not isinstance(difference.path[0], int):
        return ""
    at, rows = difference.path[0], []
    for number in range(max(0, at - AROUND), min(max(len(got), len(expected)), at + AROUND + 1)):
        mine, theirs = (shown(v[number], WIDTH) if number < len(v) else "" for v in (got, expected))
        rows.append(f"{'→' if number == at else ' '} {f'[{number}]':>7}  {mine:<{WIDTH}}  {theirs}".rstrip())
    return "\n".join([f"  {'':>7}  {'got':<{WIDTH}}  expected", *rows]) if len(rows) > 1 else ""


def _at(value: Any, path: Sequence[int | str]) -> Any:
    for step in path:
        value = value[step]
    return value


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"
