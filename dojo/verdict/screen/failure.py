"""What a screen tells of a failed check: all of it, or no more than there is room for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from dojo.verdict.causes import why
from dojo.verdict.screen.text import Row, clean, first_of, last_of, wrap
from dojo.verdict.types import Check, Label, Outcome

FOREIGN = (Label.TRACEBACK, Label.PRINTED)  # an attempt's own words, whose end tells most
MOST, TAIL = 60, 20  # rows kept of any section, and lines of these
BRIEF_TAIL = 6  # and of what was printed, where not all is asked for
PICTURE = 2  # rows more than there is room for that a map is worth
IN_FULL = "in full"  # what `just this` is called where it tells more
STYLES = {Label.CONTRACT: "bold", Label.PATTERN: "yellow", Label.DIAGNOSIS: "bold magenta", Label.REPEAT: "cyan"}
# Where there is no room for all, each in turn is left so many rows: what helps least to see the mistake goes first.
CUTS = (
    (Label.PRINTED, 2),
    (Label.INPUT, 2),
    (Label.TRACEBACK, 5),
    (Label.PRACTICE, 0),
    (Label.MAP, 0),
    (Label.EVENT, 3),
    (Label.FACTS, 3),
    (Label.PRINTED, 0),
    (Label.TRACEBACK, 3),
    (Label.ELEMENTS, 3),
    (Label.CONTRACT, 2),
    (Label.PATTERN, 1),
    (Label.DIAGNOSIS, 2),
    (Label.INPUT, 1),
    (Label.ELEMENTS, 2),
    (Label.FACTS, 1),
    (Label.EVENT, 1),
    (Label.TRACEBACK, 2),
    (Label.CONTRACT, 0),
)
Sections = list[tuple[Label, str]]


@dataclass(frozen=True)
class Block:
    """Lines behind a lead with a rule, so that nothing an attempt prints can stand where a verdict stands.

    Without a `width` they are not broken. Of `foreign` lines the last are kept, of others the first.
    """

    lead: str
    lines: list[str]
    style: str = ""
    width: int | None = None
    foreign: bool = False

    def rows(self, room: int = MOST) -> list[Row]:
        """The block in no more rows than there is room for; a sign stands where some are left out."""
        some, most, least = (last_of, TAIL, 1) if self.foreign else (first_of, MOST, 2)
        for kept in range(min(most, len(self.lines)), least - 1, -1):
            rows = self._wrapped(some(self.lines, kept))
            if len(rows) <= room:
                return rows
        rows = self._wrapped(self.lines)
        return rows if len(rows) <= room else [*rows[: room - 1], self._ended(rows[room - 1])] if room else []

    def _wrapped(self, lines: list[str]) -> list[Row]:
        lead, rows = self.lead, list[Row]()
        for line in lines:
            rows += wrap(lead, [(line, self.style)], self.width)
            lead = re.sub("[^│]", " ", lead)
        return rows

    def _ended(self, row: Row) -> Row:
        text = "".join(text for text, _ in row[1:])
        if self.width and len(self.lead) + len(text) + 2 > self.width:
            text = text[: self.width - len(self.lead) - 2]
            text = text.rpartition(" ")[0] or text
        return [row[0], (f"{text.rstrip()} …", self.style)]


def whole(check: Check, seen: Set[str], lead: str, width: int | None, also: str = "") -> list[Row]:
    """All that is known of a failure; an attempt's own words that were `seen` before need not be read again."""
    sections = [(section.label, section.text) for section in check.sections]
    return [row for block in _blocks(check, sections, seen, lead, width, also).values() for row in block.rows()]


def brief(
    check: Check, seen: Set[str], lead: str, width: int | None, also: str, room: int, least: int | None
) -> list[Row] | None:
    """What is particular to a failure, in fewer words if these need more than the `room`.

    If those do too, they are cut to at most `least` rows, or there is None.
    """
    for tight in (False, True):
        blocks = _blocks(check, _shortened(check, tight), seen, lead, width, also, BRIEF_TAIL)
        if tight and Label.REPEAT in blocks:
            blocks[Label.REPEAT] = replace(blocks[Label.REPEAT], lead=f"{lead}{IN_FULL:<11} │ ")
        rows = {label: block.rows() for label, block in blocks.items()}
        if _over(rows, room) <= 0:
            break
    else:
        if least is None:
            return None
        _cut(rows, blocks, least)
    return [row for block in rows.values() for row in block]


def _cut(rows: dict[Label, list[Row]], blocks: Mapping[Label, Block], room: int) -> None:
    for label, least in CUTS:
        over = _over(rows, room)
        if over <= 0:
            return
        if len(rows.get(label, ())) > least:  # half a map is none
            rows[label] = blocks[label].rows(max(least, len(rows[label]) - over) if label is not Label.MAP else 0)


def _over(rows: Mapping[Label, list[Row]], room: int) -> int:
    return sum(map(len, rows.values())) - room - PICTURE * bool(rows.get(Label.MAP))


def _blocks(
    check: Check, sections: Sections, seen: Set[str], lead: str, width: int | None, also: str, tail: int = TAIL
) -> dict[Label, Block]:
    """A block a label, in the order of the labels."""
    if check.diagnosis and Label.DIAGNOSIS not in dict(sections):
        sections = [*sections, (Label.DIAGNOSIS, f"equals: {check.diagnosis}")]
    if also:
        sections = [*sections, (Label.ALSO, also)]
    texts: dict[Label, str] = {}
    for label, text in sections:
        texts[label] = f"{texts[label]}\n{text}" if label in texts else text
    blocks = {}
    for label in sorted(texts, key=list(Label).index):
        foreign = label in FOREIGN
        # An attempt that fails everywhere in the same way need not be read everywhere.
        lines = ["the same as above"] if foreign and texts[label] in seen else clean(texts[label])
        if label is Label.PRINTED:
            lines = last_of(lines, tail)
        # A command is left to the terminal to break, so that it can be copied.
        broken = None if label is Label.REPEAT else width
        blocks[label] = Block(f"{lead}{label.value:<11} │ ", lines, STYLES.get(label, ""), broken, foreign)
    return blocks


def because(check: Check) -> str:
    """Why a check has not simply passed: one line behind a comma, and never the attempt's own words."""
    texts: dict[Label, str] = {}
    for label, text in _shortened(check, tight=False):
        texts.setdefault(label, next(iter(clean(text)), ""))
    first = (Label.EVENT, Label.FACTS) if check.outcome is Outcome.CRASHED else (Label.FACTS, Label.EVENT)
    reasons = [texts[label] for label in (*first, Label.ELEMENTS, Label.CONTRACT) if label in texts]
    return f", {reasons[0]}" if reasons else ""


def _shortened(check: Check, tight: bool) -> Sections:
    """Without what stands elsewhere on the screen: what holds of a result in the heading, shape and dtype with the
    input, the seed in the first line.

    A mistake that is known needs no map, and one element and one pattern to show it. Where the screen is `tight`, it
    needs no count of what is not finite, and any mistake one sentence of what it does in practice.
    """
    known, failure = bool(check.diagnosis), why(check)
    compared = any(section.label is Label.ELEMENTS for section in check.sections)
    kept = []
    for section in check.sections:
        label, text = section.label, section.text
        lines = text.split("\n")
        if label is Label.FACTS and compared:
            lines = [] if known and tight else lines[1:]
        elif label is Label.CONTRACT and failure.definition:
            lines = []
        elif label is Label.INPUT:
            lines = ["; ".join(failure.inputs)]
        elif label is Label.PRACTICE and tight:
            lines = [re.sub(r"(?<=[.!?]) (?=[A-Z`]).*", "", text)]
        elif known:
            lines = lines[: {Label.ELEMENTS: 2, Label.PATTERN: 1, Label.MAP: 0}.get(label)]
        kept.append((label, "\n".join(lines)))
    return [(label, text) for label, text in kept if text]
