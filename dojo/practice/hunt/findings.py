"""What a reader of a change has found: where each planted bug stands, and which remarks are about which of them."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from dojo.content import catalog
from dojo.practice.hunt import reader
from dojo.practice.hunt.planting import bugs_named, planted, program
from dojo.practice.hunt.refactoring import change
from dojo.verdict.screen.text import encodable

if TYPE_CHECKING:
    from dojo.content.rows import Row
    from dojo.practice.hunt.reading import Remark
    from dojo.practice.hunt.refactoring import Line
    from dojo.practice.interview.timed_session import TimedSession

NEAR = 2  # lines that a remark may stand beside the bug
WIDTH = 80


@dataclass(frozen=True)
class Planted:
    """A bug in a change: why it is one, the lines on which it stands, and the diff that takes it out."""

    name: str
    why: str
    places: tuple[tuple[int, int], ...]  # first and last lines
    mend: tuple[Line, ...]

    def distance(self, line: int) -> int:
        """How many lines a line is from the nearest of its own."""
        return min(max(first - line, line - last, 0) for first, last in self.places)


@dataclass(frozen=True)
class Findings:
    """What was found and missed, and the remarks that are about no bug."""

    found: dict[str, Remark]
    missed: list[str]
    false_alarms: list[Remark]


def standing_in(right: str, bugs: Sequence[Row]) -> list[Planted]:
    """Where bugs stand in the program that has all of them, which were planted into this right one's text."""
    whole = program(planted(right, bugs))
    found = []
    for bug in bugs:
        without = program(planted(right, [each for each in bugs if each is not bug]))
        matcher = SequenceMatcher(None, without.splitlines(), whole.splitlines(), autojunk=False)
        spans = [(start, end) for word, _, _, start, end in matcher.get_opcodes() if word != "equal"]
        places = tuple((start + 1, max(end, start + 1)) for start, end in spans)
        found.append(Planted(bug.name, bug.why, places, tuple(change(whole, without, context=0, old=True))))
    return sorted(found, key=lambda each: each.places)


def of(held: TimedSession) -> list[Planted]:
    """The bugs of a change that is read, as they stand in it."""
    (name,) = held.katas
    assert held.change is not None
    return standing_in(held.change.right, bugs_named(catalog.katas()[name], held.planted[name]))


def shown(places: Iterable[Planted], lines: Sequence[Line]) -> bool:
    """Whether each of the bugs stands beside something that the change changes, so that its reader sees it."""
    numbers, last = set[int](), 0
    for number, sign, _ in lines:
        last = number or last
        if sign != " ":
            numbers |= {last, last + 1} if number is None else {number}
    return all(any(numbers & {*range(first, end + 1)} for first, end in each.places) for each in places)


def matched(remarks: Sequence[Remark], bugs: Sequence[Planted]) -> Findings:
    """Which remark is about which bug: the nearest within reach, each about one; others beside a bug do no harm."""
    pairs = sorted((bug.distance(line), line, at, bug.name) for at, (line, _) in enumerate(remarks) for bug in bugs)
    near = [(at, name) for distance, _, at, name in pairs if distance <= NEAR]
    found, used = dict[str, "Remark"](), set[int]()
    for at, name in near:
        if name not in found and at not in used:
            found[name] = remarks[at]
            used.add(at)
    about = {at for at, _ in near}
    false_alarms = [remark for at, remark in enumerate(remarks) if at not in about]
    return Findings(found, [bug.name for bug in bugs if bug.name not in found], false_alarms)


def tell(bugs: Sequence[Planted], findings: Findings) -> None:
    """Print each bug beside what was said of it, why it is one and the diff that mends it; then the false alarms."""
    for bug in bugs:
        word = "found" if bug.name in findings.found else "missed"
        say(f"{word}, line {bug.places[0][0]}: {bug.name}")
        if bug.name in findings.found:
            line, reason = findings.found[bug.name]
            say(f"you, at line {line}: {reason}", 4)
        say(f"why: {bug.why}", 4)
        reader.show([*bug.mend])
        print()
    for line, reason in findings.false_alarms:
        say(f"false alarm, line {line}: {reason}")
    print(end="\n" if findings.false_alarms else "", flush=True)


def card(title: str, rows: dict[str, str]) -> None:
    """Print a scorecard of these rows."""
    shown = [title]
    for label, value in rows.items():
        first, *more = textwrap.wrap(value, WIDTH - 21, break_on_hyphens=False) or [""]
        shown += [f"  {label:<17}  {first}", *(f"{'':21}{line}" for line in more)]
    print(encodable("\n".join(shown), sys.stdout))
    print(flush=True)


def say(text: str, indent: int = 2) -> None:
    """Print a sentence in lines of 80 columns, or of a narrower terminal."""
    width = min(WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else WIDTH
    margin = " " * indent
    shown = textwrap.fill(text, width, initial_indent=margin, subsequent_indent=f"{margin}  ", break_on_hyphens=False)
    print(encodable(shown, sys.stdout))
