"""Reads percent scripts, Jupytext's form of a notebook as Python: their cells, tags and prose."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

NOTEBOOK_ONLY = "active-ipynb"  # Jupytext's tag
LESSON = "lesson"  # of the cells that a notebook has beside those of its script
LESSON_PARTS = frozenset({"idea", "figure", "step", "step-cases", "experiment"})  # how a master tags them


@dataclass
class Cell:
    """One cell of a percent script: its `# %%` line, its lines, and where it stands in the file."""

    marker: str
    lines: list[str]
    start: int

    @property
    def markdown(self) -> bool:
        return "[markdown]" in self.marker

    @property
    def tags(self) -> list[str]:
        found = re.search(r"tags=(\[[^]]*\])", self.marker)
        return json.loads(found[1]) if found else []

    @property
    def of_lesson(self) -> bool:
        """Whether a master's cell is of the lesson before the kata, and so of no script."""
        return not LESSON_PARTS.isdisjoint(self.tags)

    @property
    def prose(self) -> str:
        """The text of a markdown cell, or the code of one for notebooks alone, without comment signs."""
        return "\n".join(re.sub(r"^# ?", "", line) for line in self.lines).strip()


def read_text(path: Path) -> str:
    """A script's text, as `decoded` gives it."""
    return decoded(path.read_bytes())


def decoded(content: bytes) -> str:
    """A script's text with plain newlines and no byte order mark, whatever the editor made of them."""
    return content.decode("utf-8-sig").replace("\r\n", "\n")


def split(text: str) -> tuple[str, list[Cell]]:
    """A percent script's YAML header and its cells."""
    lines = text.split("\n")
    fences = [n for n, line in enumerate(lines[:200]) if line.rstrip() == "# ---"]
    start = fences[1] + 1 if len(fences) > 1 and fences[0] == 0 else 0
    cells: list[Cell] = []
    for number, line in enumerate(lines[start:], start):
        if re.match(r"# ?%%(?!\w)", line):
            cells.append(Cell(line.rstrip(), [], number + 1))
        elif cells:
            cells[-1].lines.append(line)
        elif line.strip():
            cells.append(Cell("# %%", [line], number))
    return "\n".join(lines[:start]), cells
