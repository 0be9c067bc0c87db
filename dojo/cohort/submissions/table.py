"""A table of what was handed in: CSV or JSON Lines, a student, a kata and a path a row."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeGuard

from dojo.cohort.submissions.names import parts, shown
from dojo.cohort.submissions.tree import File, Folder, Unreadable

SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson")
LIMIT = 64 << 20  # bytes
COLUMNS = ("student", "path")  # and kata, where the file's name does not tell, and time


@dataclass(frozen=True)
class Row:
    """A line of a table."""

    student: str
    kata: str  # nothing where the file's name tells
    path: str
    line: int
    time: str = ""  # when it was handed in


def is_table(entry: File | Folder) -> TypeGuard[File]:
    """Whether it is a table by its name."""
    return isinstance(entry, File) and entry.name.lower().endswith(SUFFIXES)


def rows(table: File) -> list[Row]:
    """What a table says. Raises Unreadable."""
    try:
        text = table.content(LIMIT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Unreadable(f"it is not UTF-8 text (byte {error.start}): save it as CSV in UTF-8") from None
    read = _json_lines(text) if table.name.lower().endswith((".jsonl", ".ndjson")) else _csv(text)
    try:
        found = [(line, {str(key).strip().lower(): value for key, value in row.items()}) for line, row in read]
    except csv.Error as error:
        raise Unreadable(f"it is no CSV that can be read ({error})") from None
    if not found:
        raise Unreadable("it has no rows")
    for column in COLUMNS:
        if not any(row.get(column) for _, row in found):
            there = ", ".join(shown(name) for name in found[0][1])
            raise Unreadable(
                f"it has no column '{column}', but {there}: it needs student and path, and may have kata and time"
            )
    names = (*COLUMNS, "kata", "time")
    return [Row(line=line, **{name: str(row.get(name) or "").strip() for name in names}) for line, row in found]


def _csv(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    first = text.split("\n", 1)[0]
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count))
    for row in reader:
        yield reader.line_num, {str(key): value for key, value in row.items()}


def _json_lines(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"its line {number} is no JSON ({error})") from None
        if not isinstance(row, dict):
            raise Unreadable(f"its line {number} is no JSON object")
        yield number, row


def find(top: Folder, path: str) -> File:
    """The file of a path below a folder. Raises Unreadable."""
    names = parts(path)
    if names is None:
        raise Unreadable("its path leads out of the table's folder: put the table above all that it names")
    entry: File | Folder = top
    for name in names:
        if isinstance(entry, File):
            raise Unreadable(entry.refused or "there is no such file")
        found = entry.get(name) or _respelled(entry, name)
        if found is None:
            raise Unreadable("there is no such file")
        entry = found
    if not isinstance(entry, File):
        raise Unreadable("it is a folder: name a file")
    return entry


def _respelled(folder: Folder, name: str) -> File | Folder | None:
    """What is called so in another spelling of the same letters, as macOS and Linux have them."""
    wanted = unicodedata.normalize("NFC", name)
    return next((entry for entry in folder.entries() if unicodedata.normalize("NFC", entry.name) == wanted), None)
