"""Attempts that are alike, side by side: what a teacher reads before asking anybody."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache
from itertools import groupby, zip_longest

from dojo.cohort.copies import Pair, Printed, words
from dojo.cohort.records import Submitted
from dojo.content import master
from dojo.content.catalog import Kata
from dojo.verdict.page.html import esc

SHOWN = 40  # pairs
LONGEST = 600  # lines of an attempt
SOLUTION = "the solution"
QUIET = 5  # lines without a word of Python that are shown one by one
NOTHING = "<td></td><td></td>"
COLUMNS = f"<colgroup>{2 * '<col><col class=text>'}</colgroup>"
Line = tuple[int, str] | None


def body(pairs: Sequence[Pair], katas: Mapping[str, Kata], text: Callable[[Printed], Submitted]) -> str:
    """The body of the page about the likest pairs; `text` finds what was handed in."""
    said = (
        "<p>Lines that are the same up to names, comments and layout are marked. Short katas have few right answers, "
        "and this judges nobody: read both before you ask.</p>"
    )
    if len(pairs) > SHOWN:
        said += f"<p>These are the {SHOWN} likest of {len(pairs)} pairs; the page about the class lists them all.</p>"
    return said + "".join(_pair(number, pair, katas, text) for number, pair in enumerate(pairs[:SHOWN], 1))


def _pair(number: int, pair: Pair, katas: Mapping[str, Kata], text: Callable[[Printed], Submitted]) -> str:
    kata = katas[pair.first.kata]
    solution = Submitted(SOLUTION, kata.name, kata.say(kata.master), _solution(kata))
    both = (text(pair.first), text(pair.second) if pair.second else solution)
    names = " and ".join(f"<bdi>{esc(each.student)}</bdi>" for each in both)
    title = f"{names}: {esc(kata.name)}, {pair.share:.0%}"
    shares = (
        f"<p>Of the first {pair.of_first:.0%} are in the second, of the second {pair.of_second:.0%} in the first.</p>"
    )
    sides = [[*enumerate(each.source.splitlines()[:LONGEST], 1)] for each in both]
    cut = any(len(each.source.splitlines()) > LONGEST for each in both)
    rest = f"<p>Only the first {LONGEST} lines of each are here.</p>" if cut else ""
    heads = "".join(f'<th scope="col" colspan="2"><bdi>{esc(each.path)}</bdi></th>' for each in both)
    lines = "".join(_rows(_aligned(*sides)))
    table = f'<table class="pair">{COLUMNS}<thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>'
    label = f"pair {number}, a table to scroll"
    return (
        f"<details{' open' if number == 1 else ''}><summary>{title}</summary>{shares}{rest}"
        f'<div class="wide" role="group" aria-label="{label}" tabindex="0">{table}</div></details>'
    )


def _rows(lines: Iterable[tuple[Line, Line, bool]]) -> Iterator[str]:
    """Rows of a table; of many comments and empty lines in a row, such as the statement, only how many they are."""
    for silent, group in groupby(lines, lambda each: not any(_plain(side[1]) for side in each[:2] if side)):
        rows = list(group)
        if silent and len(rows) > QUIET:
            yield f'<tr><td class="n">⋮</td><td colspan="3">{len(rows)} lines of comments, or empty</td></tr>'
        else:
            yield from (_row(*each) for each in rows)


def _row(left: Line, right: Line, same: bool) -> str:
    cells = (f'<td class="n">{side[0]}</td><td>{esc(side[1])}</td>' if side else NOTHING for side in (left, right))
    return f"<tr{' class=same' * same}>{''.join(cells)}</tr>"


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


def _solution(kata: Kata) -> str:
    return master.without_handed_out(master.read_text(kata.master))
