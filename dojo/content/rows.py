"""Rows: programs told as small edits of another one, the master as a rule. One reader of them serves every use.

A file of rows is text, a row of it three lines or more:

    softmax over the queries
        each query spreads a weight of 1 over the keys, so softmax runs over the last axis.
        dim=-1  →  dim=-2

The name stands at the margin, then why it is so, then the edits: what stands exactly once in the code, an arrow, and
what stands there instead, if anything; a line that nothing is left of goes. Lines that are indented by eight go on with
the new text, on lines of their own. A long edit may break before its arrow. Words in brackets, two blanks behind the
name, are the row's mark: `[raises]`. What an edit gives is formatted as the source is, for hunts hand it out. Prose is
never edited: neither the markdown cells of a master count nor its header.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from dojo.content import master

ARROW = "→"
HEAD = re.compile(r"(?P<name>.+?)(?:  \[(?P<mark>[^\[\]]*)\])?")


class BadRow(ValueError):
    """A row that cannot be read, or whose edits do not fit; the message says the file, the line and what is wrong."""


@dataclass(frozen=True)
class Row:
    """A change by its name, one sentence that explains it, the edits of a source that make it, and where it stands."""

    name: str
    why: str
    edits: tuple[tuple[str, str], ...]
    mark: str = ""
    place: str = ""  # FILE:LINE

    def plant(self, source: str) -> str:
        """The source with this change in it.

        Raises:
            BadRow: what an edit replaces does not stand exactly once in the source's code.
        """
        source = master.without_handed_out(source)
        for old, new in self.edits:
            lines = code(source)
            at = lines.find(old)
            if at < 0 or lines.find(old, at + 1) >= 0:
                raise BadRow(f"{self.place}: {old!r} {_stands(old, lines)}")
            start = source.rfind("\n", 0, at) + 1
            line, _, after = source[start:].partition("\n")
            margin = line[: len(line) - len(line.lstrip(" "))]
            left = line.replace(old, new.replace("\n", f"\n{margin}"))
            source = source[:start] + (f"{left}\n" if left.strip() else "") + after
        return source

    def fits(self, source: str) -> bool:
        """Whether the change can be made in this source."""
        try:
            self.plant(source)
        except BadRow:
            return False
        return True


def read(path: Path) -> list[Row]:
    """The rows of a file; none where there is no file. Raises BadRow."""
    return rows(path.read_text("utf-8"), "/".join(path.parts[-4:])) if path.exists() else []


def rows(text: str, origin: str = "rows") -> list[Row]:
    """The rows of a text, which is called so in an error.

    Raises:
        BadRow: a line belongs to no row, or an edit has nothing before its arrow.
    """
    found: list[Row] = []
    start, block = 1, list[str]()
    for number, line in enumerate([*text.split("\n"), "end"], 1):
        if line[:1].strip():
            found += [_row(block, f"{origin}:{start}")] if any(map(str.strip, block)) else []
            start, block = number, []
        block.append(line)
    return found


def _row(lines: list[str], place: str) -> Row:
    head = HEAD.fullmatch(lines[0].rstrip())
    if head is None or not lines[0][:1].strip():
        raise BadRow(f"{place}: a row begins with its name at the margin, and not with {lines[0]!r}")
    words: list[str] = []
    edits: list[list[str]] = []
    for line in lines[1:]:
        text = line.strip()
        if edits and line.startswith(" " * 8) and not text.startswith(ARROW):
            edits[-1][1] += "\n" + line[8:]
        elif ARROW in text:
            old, _, new = text.partition(ARROW)
            if not old.strip():
                if not words:
                    raise BadRow(f"{place}: {head['name']!r} has an edit with nothing before {text!r}")
                old = words.pop()
            edits.append([old.strip(), new.strip()])
        elif text:
            words.append(text)
    return Row(head["name"], " ".join(words), tuple((old, new) for old, new in edits), head["mark"] or "", place)


@lru_cache(maxsize=64)
def code(source: str) -> str:
    """The source with every line of prose, and of the lesson, blank, each character still at its place."""
    header, cells = master.split(source)
    prose = {*range(header.count("\n") + 1)} if header else set[int]()
    for cell in cells:
        if cell.markdown or cell.of_lesson:
            prose |= {*range(cell.start - 1, cell.start + len(cell.lines))}
    lines = source.split("\n")
    return "\n".join(" " * len(line) if number in prose else line for number, line in enumerate(lines))


def _stands(old: str, text: str) -> str:
    """`stands twice (lines 57, 90)`: where a text stands that should stand once."""
    at = [match.start() for match in re.finditer(re.escape(old), text)]
    lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in at)
    if not at:
        return "does not stand in the code"
    return f"stands {'twice' if len(at) == 2 else f'{len(at)} times'} (lines {lines})"
