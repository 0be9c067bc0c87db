"""Known bugs: mistakes that people make, planted in the master by small edits, and recognised by what they give.

A table of them is text, three lines a row:

    softmax over the queries
        each query spreads a weight of 1 over the keys, so softmax runs over the last axis.
        dim=-1  →  dim=-2

The name stands at the margin, then why it is a mistake, then the edits: what stands exactly once in the source, an
arrow, and what stands there instead, if anything; a line that nothing is left of goes. Lines that are indented further
go on with the new text, on lines of their own. A long edit may break before its arrow. Words in brackets behind a name
are its note: `[raises]` for a bug that shows as an exception. What an edit gives is formatted as the source is, for
hunts hand it out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType

from torch import Tensor

from dojo.content import catalog, master
from dojo.content.catalog import Kata
from dojo.contracts.checks.assertions import Wrong
from dojo.contracts.checks.tolerance import error_ratio
from dojo.verdict.failures import UNKNOWN, Fault, Raised
from dojo.verdict.mismatch.plain import first_difference, within
from dojo.verdict.types import Label

ARROW = "→"


@dataclass(frozen=True)
class Bug:
    """A mistake by its name in the field, one sentence that explains it, and the edits of a source that make it."""

    name: str
    why: str
    edits: tuple[tuple[str, str], ...]
    note: str = ""

    def plant(self, source: str) -> str:
        """The source with this mistake in it.

        Raises:
            ValueError: what an edit replaces does not stand exactly once in the source.
        """
        source = master.without_handed_out(source)
        for old, new in self.edits:
            if source.count(old) != 1:
                raise ValueError(f"the bug {self.name!r} edits {old!r}, which stands {source.count(old)} times")
            start = source.rfind("\n", 0, source.find(old)) + 1
            line, _, after = source[start:].partition("\n")
            margin = line[: len(line) - len(line.lstrip(" "))]
            left = line.replace(old, new.replace("\n", f"\n{margin}"))
            source = source[:start] + (f"{left}\n" if left.strip() else "") + after
        return source

    def fits(self, source: str) -> bool:
        """Whether the mistake can be planted in this source."""
        try:
            self.plant(source)
        except ValueError:
            return False
        return True


@dataclass(frozen=True)
class Equivalent:
    """A change of the master that is no mistake: what "line  →  changed line" must match, and why it is none."""

    change: str  # a regular expression
    why: str


WIDER = Equivalent(r"float32.*→.*float64", "float64 is wider than the float32 that is asked for.")


@dataclass(frozen=True)
class KnownBugs:
    """A grader's table, read when it is needed.

    A kata that builds on others takes over their bugs, wherever the edits fit its master, but for those named in `but`:
    mistakes that this kata makes impossible or harmless.
    """

    text: str
    builds_on: tuple[str, ...] = ()
    but: tuple[str, ...] = ()

    @cached_property
    def own(self) -> list[Bug]:
        """The rows of this table alone."""
        return table(self.text)


def bugs_of(kata: Kata, grader: ModuleType | None = None) -> list[Bug]:
    """The known bugs of a kata: the rows of its grader's BUGS, and those it takes over."""
    known: KnownBugs = (grader or catalog.load(kata.grader)).BUGS
    found = {bug.name: bug for bug in known.own}
    source = master.read_text(kata.master)
    for name in known.builds_on:
        for bug in bugs_of(catalog.named(name, kata.root)):
            if bug.name not in known.but and bug.fits(source):
                found.setdefault(bug.name, bug)
    return list(found.values())


def equivalents_of(kata: Kata) -> list[Equivalent]:
    """The changes of a master that are no mistakes, those of the katas whose bugs it takes over included."""
    grader = catalog.load(kata.grader)
    found = list(getattr(grader, "EQUIVALENT", ()))
    for name in grader.BUGS.builds_on:
        found += equivalents_of(catalog.named(name, kata.root))
    return found


def same_failure(attempt: Fault, bug: Fault) -> bool:
    """Whether a known bug fails a check in the way the attempt does: same place, same values within the tolerance."""
    if attempt.outcome is not bug.outcome:
        return False
    if isinstance(attempt, Wrong) and isinstance(bug, Wrong) and isinstance(attempt.got, Tensor):
        return attempt.where == bug.where and isinstance(bug.got, Tensor) and _same_values(attempt, bug)
    if isinstance(attempt, Wrong) and isinstance(bug, Wrong) and attempt.got is not None:
        return attempt.where == bug.where and first_difference(bug.got, attempt.got, within(1e-6, 1e-9)) is None
    if isinstance(attempt, Raised) and isinstance(bug, Raised):
        return (attempt.kind, attempt.text) == (bug.kind, bug.text) and _same_operation(attempt, bug)
    return _told(attempt) == _told(bug)


def _same_operation(attempt: Raised, bug: Raised) -> bool:
    """Whether two exceptions come of one operation on operands of the same shapes, as far as both are known.

    `x - x.amax(-1)` and `x / x.sum(-1)` raise the same text, and are two mistakes.
    """
    if not attempt.operation or not bug.operation:
        return True
    pairs = zip(attempt.operation, bug.operation, strict=False)
    return attempt.operation[0] == bug.operation[0] and all(a == b or UNKNOWN in (a, b) for a, b in pairs)


def _same_values(attempt: Wrong, bug: Wrong) -> bool:
    got, other = attempt.got.cpu(), bug.got.cpu()
    if got.shape != other.shape or got.dtype is not other.dtype:
        return False
    if got.is_complex() or attempt.allowed is None or attempt.allowed.shape != got.shape:
        return bool(((got == other) | (got != got) & (other != other)).all())
    ratio = error_ratio(got, other, attempt.allowed)
    return not ratio.numel() or float(ratio.max()) <= 1


def _told(fault: Fault) -> list[str]:
    """What a fault says, less what depends on how the file is written."""
    return [s.text for s in fault.sections if s.label in (Label.EVENT, Label.CONTRACT, Label.FACTS)]


def table(text: str) -> list[Bug]:
    """The bugs of a table, as the docstring of this module describes it.

    Raises:
        ValueError: a row has no edit, or a line is none of a row; the message holds it.
    """
    rows = re.split(r"\n(?=\S)", text.strip("\n"))
    return [_row(row) for row in rows if row.strip()]


def _row(row: str) -> Bug:
    head, *lines = row.rstrip().split("\n")
    name, bracket, note = head.partition("  [")
    words: list[str] = []
    edits: list[list[str]] = []
    for line in lines:
        text = line.strip()
        if edits and line.startswith(" " * 8) and not text.startswith(ARROW):
            edits[-1][1] += "\n" + line[8:]
        elif ARROW in text:
            old, _, new = text.partition(ARROW)
            if not old.strip():
                if not words:
                    raise ValueError(f"the bug {name!r}: nothing stands before {text!r}")
                old = words.pop()
            edits.append([old.strip(), new.strip()])
        elif text:
            words.append(text)
    if not edits:
        raise ValueError(f"the bug {name!r} has no edit: a line `old  {ARROW}  new` is missing")
    if bracket and not note.endswith("]"):
        raise ValueError(f"the bug {head!r}: the note in brackets is not closed")
    return Bug(name.strip(), " ".join(words), tuple((old, new) for old, new in edits), note.removesuffix("]"))
