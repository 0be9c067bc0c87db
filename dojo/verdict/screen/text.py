"""Text for a terminal: without what a terminal obeys, broken into rows, and as far as an encoding goes."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

LONGEST = 1000  # characters kept of a line
WORTH = 16  # and of one that is clipped, at least
AT_STAGE = "@"  # in the name of a check of a kata with stages: `TestAttention@4::test_values_match_the_definition`
ASCII = str.maketrans("✓✗×·…│−≥≤█▓▒░→↓√", "+x*..|-><#%+:>v^")
ESCAPE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b.?", re.DOTALL)
Span = tuple[str, str]  # text and style
Row = list[Span]


def clean(text: str) -> list[str]:
    """The lines of a text of unknown origin, without anything that a terminal obeys instead of showing it."""
    return [visible(line).rstrip() for line in ESCAPE.sub("", str(text)).expandtabs(4).splitlines()]


def visible(line: str) -> str:
    kept = "".join(c for c in line[: LONGEST + 1] if unicodedata.category(c)[0] != "C")
    return kept if len(line) <= LONGEST else kept[:LONGEST] + "…"


def readable(name: str, wrong: bool = False) -> str:
    """The sentence that a test's name is: `TestRoPE::test_keeps_norm[one_token]`, "RoPE: keeps norm (one token)".

    Of a check that found a value `wrong` it is no news but a rule: "RoPE: must hold: keeps norm (one token)".
    """
    path, bracket, case = name.partition("[")
    *parents, function = path.split("::")
    group = ""
    if parents and not parents[-1].endswith(".py"):
        group, at, stage = parents[-1].removeprefix("Test").partition(AT_STAGE)
        group = f"stage {stage}, {group}" if at else group
    sentence = function.removeprefix("test_").replace("_", " ")
    # pytest joins parameters by "-"; the minus of a number and of an exponent is none of these.
    conditions = re.sub(r"(?<!\de)(?<=[^-])-", ", ", case.removesuffix("]")).replace("_", " ")
    return f"{group and group + ': '}{'must hold: ' * wrong}{sentence}{bracket and f' ({conditions})'}"


def callable_of(name: str) -> str:
    """What a check is about, by the check's name: `RoPE` of `TestRoPE::test_keeps_norm`."""
    return name.partition("::")[0].removeprefix("Test").partition(AT_STAGE)[0]


def clipped(text: str, room: int) -> str:
    """As much of a text as there is room for; nothing of it if that says nothing."""
    return text if len(text) <= room else f"{text[: room - 1].rstrip()}…" if room > WORTH else ""


def last_of(lines: list[str], count: int) -> list[str]:
    """The last lines, below how many stand before them."""
    return [f"… {len(lines) - count} lines before", *lines[-count:]] if len(lines) > count else lines


def first_of(lines: list[str], count: int) -> list[str]:
    """The first lines, above how many stand behind them."""
    return [*lines[:count], f"… {len(lines) - count} lines more"] if len(lines) > count else lines


def filled(text: str, stream: TextIO) -> str:
    """Sentences in lines of a terminal's width, broken at spaces alone so that paths stay whole; in a pipe as is."""
    if not stream.isatty():
        return text
    rows = []
    for line in text.split("\n"):
        # what follows a number and its dot goes on below itself
        below = re.match(r" *(\d+\. +\S+ {2,})?", line)
        indent = " " * len(below[0] if below else "")
        room = shutil.get_terminal_size().columns
        kept = textwrap.wrap(line, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        rows += kept or [""]
    return "\n".join(rows)


@contextmanager
def told_while(text: str) -> Iterator[None]:
    """What is going on, on a terminal, as long as it does."""
    if sys.stdout.isatty():
        print(text, end="", flush=True)
    try:
        yield
    finally:
        if sys.stdout.isatty():
            print("\r\x1b[2K", end="", flush=True)


def wrap(lead: str, spans: Row, width: int | None) -> list[Row]:
    """The spans in rows that the terminal need not break: what it breaks goes on at the left, like a verdict."""
    text = "".join(text for text, _ in spans)
    wide = any(unicodedata.east_asian_width(c) in "WF" for c in text)
    room = max(10, (width - len(lead)) // (1 + wide)) if width else max(1, len(text))
    pieces = textwrap.wrap(text, room, drop_whitespace=False, break_on_hyphens=False, replace_whitespace=False)
    rows: list[Row] = []
    for piece in pieces or [""]:
        blank = len(piece) - len(piece.lstrip()) if rows else 0
        _take(spans, blank)
        rows.append([(lead, "dim"), *_take(spans, len(piece) - blank)])
        lead = re.sub("[^│]", " ", lead)
    return rows


def _take(spans: Row, count: int) -> Row:
    """Remove the first `count` characters from the spans and return them."""
    taken: Row = []
    while count and spans:
        text, style = spans.pop(0)
        if len(text) > count:
            spans.insert(0, (text[count:], style))
        taken.append((text[:count], style))
        count -= len(taken[-1][0])
    return taken


def encodable(text: str, stream: TextIO) -> str:
    """The text as far as the stream's encoding goes; a pipe may be ASCII."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(ASCII).encode(encoding, "replace").decode(encoding)
    return text
