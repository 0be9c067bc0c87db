"""Attempts that are alike, side by side: what a teacher reads before asking anybody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from itertools import groupby, zip_longest
from typing import Any

from dojo.cohort.copies import Pair, Printed, words
from dojo.cohort.records import Submitted
from dojo.content import master
from dojo.content.catalog import Kata
from dojo.verdict.page import html

SHOWN = 40  # pairs
LONGEST = 600  # lines of an attempt
SOLUTION = "the solution"
QUIET = 5  # lines without a word of Python that are shown one by one
Line = tuple[int, str] | None


def page(pairs: Sequence[Pair], katas: Mapping[str, Kata], text: Callable[[Printed], Submitted]) -> str:
    """The page about the likest pairs; `text` finds what was handed in."""
    return html.render(
        "cohort/outputs/alike.html",
        title="Attempts that are alike",
        shown=SHOWN,
        longest=LONGEST,
        count=len(pairs),
        pairs=[_side_by_side(pair, katas, text) for pair in pairs[:SHOWN]],
    )


def _side_by_side(pair: Pair, katas: Mapping[str, Kata], text: Callable[[Printed], Submitted]) -> dict[str, Any]:
    kata = katas[pair.first.kata]
    shown = master.without_handed_out(master.read_text(kata.master))
    solution = Submitted(SOLUTION, kata.name, kata.say(kata.master), shown)
    both = (text(pair.first), text(pair.second) if pair.second else solution)
    sides = [each.source.splitlines() for each in both]
    return {
        "both": both,
        "pair": pair,
        "cut": any(len(lines) > LONGEST for lines in sides),
        "rows": list(_rows(_aligned(*([*enumerate(lines[:LONGEST], 1)] for lines in sides)))),
    }


def _rows(lines: Iterable[tuple[Line, Line, bool]]) -> Iterator[tuple[int, list[tuple[Line, Line, bool]]]]:
    """Rows of a table; of many comments and empty lines in a row, such as the statement, only how many they are."""
    for silent, group in groupby(lines, lambda each: not any(_plain(side[1]) for side in each[:2] if side)):
        rows = list(group)
        yield (len(rows), []) if silent and len(rows) > QUIET else (0, rows)


def _aligned(left: list[tuple[int, str]], right: list[tuple[int, str]]) -> Iterator[tuple[Line, Line, bool]]:
    """Lines beside each other, and whether they are the same; what stands on one side alone has None beside it."""
    ours, theirs = ([_plain(text) for _, text in side] for side in (left, right))
    for kind, start, end, begin, stop in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        for one, other in zip_longest(left[start:end], right[begin:stop]):
            yield one, other, kind == "equal" and bool(_plain(one[1]) if one else "")


@cache
def _plain(line: str) -> str:
    """A line up to names, comments and layout."""
    return " ".join(words(line))
