"""Reads what a teacher writes: a TOML file key by key, a CSV row by row; an error names the place and the remedy."""

from __future__ import annotations

import csv
import difflib
import io
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dojo.content.catalog import Trouble


@dataclass(frozen=True)
class Reader:
    """Holds what a TOML file says against what it may say. Everything raises Trouble."""

    path: Path

    def load(self, looks: str) -> dict[str, Any]:
        """The whole file, which looks like this."""
        try:
            return tomllib.loads(_text(self.path, "name a TOML file with a table [default]"))
        except tomllib.TOMLDecodeError as error:
            raise Trouble(f"{self.path} is no TOML: {error}. {looks}") from None

    def table(self, value: Any, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Trouble(f"{self.path}: {key} is {value!r} and must be a table: write [{key}] on a line of its own")
        return value

    def names(self, table: Mapping[str, Any], key: str, known: Collection[str], what: str) -> None:
        """Refuse a name that means nothing, which may be a slip of the pen for one that does."""
        for name in table:
            if name not in known:
                message = f"{self.path}: {f'{key}.{name}'.strip('.')}: '{name}' is not {what}"
                raise Trouble(f"{message}{meant(name, known)}")

    def number(self, value: Any, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            last = key.rpartition(".")[2]
            raise Trouble(f"{self.path}: {key} is {value!r}: write a number, 0 or more, as in {last} = 3")
        return float(value)

    def word(self, value: Any, key: str, example: str) -> str:
        if not isinstance(value, str) or not value.strip():
            raise Trouble(
                f"{self.path}: {key} is {value!r}: write a text, as in {key.rpartition('.')[2]} = {example!r}"
            )
        return value.strip()

    def file(self, value: Any, key: str, example: str) -> Path:
        """A file that is named from where this one lies."""
        found = self.path.parent / Path(self.word(value, key, example)).expanduser()
        if not found.is_file():
            raise Trouble(
                f"{self.path}: {key} names {found}, which is no file: write its name from where this one lies"
            )
        return found


def meant(name: str, known: Iterable[str]) -> str:
    """What a word may have been meant to be, as the rest of a sentence."""
    words = list(known)
    near = difflib.get_close_matches(name, words, 1, 0.5)
    there = ", ".join(words[:12]) + (f" and {len(words) - 12} more" if len(words) > 12 else "")
    return f": did you mean {near[0]}?" if near else f": there are {there}" if words else ""


@dataclass(frozen=True)
class Row:
    """A line of a table, by the names of its columns in small letters."""

    path: Path
    line: int
    cells: Mapping[str, str]

    def get(self, column: str) -> str:
        """A cell; nothing where there is no such column."""
        return self.cells.get(column, "")

    def wrong(self, why: str) -> Trouble:
        """What is wrong with this row."""
        return Trouble(f"{self.path}, line {self.line}: {why}")


def rows(path: Path, needed: Collection[str], example: str, synonyms: Mapping[str, str] | None = None) -> list[Row]:
    """The rows of a CSV file that is separated by commas, semicolons or tabs. Raises Trouble.

    `synonyms` are other names of columns; a row without a word in it is left out.
    """
    text = _text(path, f"write a CSV such as {example}")
    first = text.split("\n", 1)[0]
    found, end = list[Row](), 0
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=first.count), strict=True)
    try:
        heads = [head.strip().lower() for head in next(reader, [])]
        heads = [(synonyms or {}).get(head, head) for head in heads]
        end = reader.line_num
        for cells in reader:
            line, end = end + 1, reader.line_num
            if len(cells) > len(heads):
                raise Trouble(f"{path}, line {line}: it has {len(cells)} cells under {len(heads)} heads: quote a comma")
            if any(cell.strip() for cell in cells):
                found.append(Row(path, line, dict(zip(heads, map(str.strip, cells), strict=False))))
    except csv.Error as error:
        raise Trouble(f"{path}, line {end + 1}: it is no CSV ({error}): save it as CSV in UTF-8") from None
    if missing := [column for column in needed if column not in heads]:
        there = ", ".join(heads) or "nothing"
        raise Trouble(f"{path}, line 1: there is no column '{missing[0]}', but {there}: it looks like {example}")
    return found


def _text(path: Path, remedy: str) -> str:
    try:
        return path.read_text("utf-8-sig")
    except OSError as error:
        raise Trouble(f"{path} cannot be read ({error.strerror}): {remedy}") from None
    except UnicodeDecodeError as error:
        raise Trouble(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
