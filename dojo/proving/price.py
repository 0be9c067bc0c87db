"""What a kata costs: the lines that are written by hand. Stubs and notebooks are made from masters and cost nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from dojo.content.catalog import Kata
from dojo.content.cells import read_text, split


def lines(kata: Kata) -> dict[str, int]:
    """The hand-written lines of a kata by part, as they stand in the files, blank ones too; its lesson aside."""
    parts = {
        "master": [kata.master],
        "contract": [kata.grader],
        "wrong": [kata.proofs / "wrong.txt", *kata.proofs.glob("wrong/*.py")],
        "right": [*kata.proofs.glob("right.txt"), *kata.proofs.glob("right/*.py")],
        "field": [*kata.proofs.glob("field/*.py")],
    }
    found = {part: _count(paths) for part, paths in parts.items()}
    found["master"] -= sum(len(cell.lines) + 1 for cell in split(read_text(kata.master))[1] if cell.of_lesson)
    return found


def mean(katas: Iterable[Kata]) -> float:
    """The lines of a kata in the mean."""
    sums = [sum(lines(kata).values()) for kata in katas]
    return sum(sums) / len(sums)


def _count(paths: Iterable[Path]) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths if path.exists())
