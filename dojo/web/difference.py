"""What two texts differ in, as a table: side by side, or one above the other, with signs as `diff` has them."""

from __future__ import annotations

import difflib
import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from dojo.verdict.page import html

AROUND = 3  # lines that are shown around a change
ALIKE = 0.6  # of a line's words that stayed, from which on those that did not are marked
WORD = re.compile(r"\w+|\s+|.")

CHANGES = dict.fromkeys(("changed", "gone", "new"), "change")

Piece = tuple[str, bool]  # a part of a line, and whether it differs from the other side's line


class Side(NamedTuple):
    """A line of one of the texts; without a number there is none."""

    number: int = 0
    pieces: tuple[Piece, ...] = ()


class Pair(NamedTuple):
    """What stands beside each other: the same line, one that changed, one of one side alone; or a gap."""

    kind: str  # same, changed, gone, new or gap
    old: Side = Side()
    new: Side = Side()


def table(old: str, new: str, heads: tuple[str, str], side_by_side: bool) -> str:
    """The difference as HTML; each text has a head."""
    found = list(pairs(old, new))
    runs = [(kind, [*run]) for kind, run in itertools.groupby(found, lambda pair: CHANGES.get(pair.kind, pair.kind))]
    return html.render("web/difference.html", runs=runs, heads=heads, side_by_side=side_by_side)


def pairs(old: str, new: str) -> Iterator[Pair]:
    """The lines that differ, with some around them; nothing where none does."""
    before, after = old.splitlines(), new.splitlines()
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if before == after:
        return
    for number, group in enumerate(matcher.get_grouped_opcodes(AROUND)):
        if number:
            yield Pair("gap")
        for tag, a, b, c, d in group:
            for left, right in itertools.zip_longest(range(a, b), range(c, d)):
                yield _pair(before, after, left, right, tag == "equal")


def _pair(before: list[str], after: list[str], left: int | None, right: int | None, same: bool) -> Pair:
    if left is None:
        assert right is not None  # one of both there is
        return Pair("new", new=Side(right + 1, ((after[right], False),)))
    if right is None:
        return Pair("gone", old=Side(left + 1, ((before[left], False),)))
    old, new = before[left], after[right]
    marked = (((old, False),), ((new, False),)) if same else _marked(old, new)
    return Pair("same" if same else "changed", Side(left + 1, marked[0]), Side(right + 1, marked[1]))


def _marked(old: str, new: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """A line and what became of it, in pieces: those that differ are marked, where the lines are alike at all."""
    before, after = WORD.findall(old), WORD.findall(new)
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    if matcher.ratio() < ALIKE:
        return ((old, False),), ((new, False),)
    left, right = list[Piece](), list[Piece]()
    for tag, a, b, c, d in matcher.get_opcodes():
        left += [("".join(before[a:b]), tag != "equal")] if b > a else []
        right += [("".join(after[c:d]), tag != "equal")] if d > c else []
    return tuple(left), tuple(right)
