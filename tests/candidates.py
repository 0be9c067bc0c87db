"""What the tests grade besides the solutions: right attempts in many styles, and subtle mistakes.

A right attempt is a file `tests/attempts/TRACK/KATA/STYLE.py`. It may build on another one, as a candidate pastes what
was written before: a line `# with TRACK/KATA/STYLE` stands for that file's text. Where styles differ in a line or two
they are rows of `tests/attempts/TRACK/KATA.txt`: edits of the solution, in the form of a grader's table of bugs.

A mistake is a row of `tests/mistakes/TRACK/KATA.txt`: edits of the solution, in the form of a grader's table of bugs,
or of a right attempt that the note names (`[of STYLE]`). The few that are no edit of either are files beside it,
`tests/mistakes/TRACK/KATA/NAME.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

from dojo.contracts.checks.known_bugs import Bug, table

HERE = Path(__file__).resolve().parent
SOLUTIONS = HERE.parent / "solutions"


def right_attempts(kata: str) -> dict[str, str]:
    """The right attempts at a kata, by style."""
    found = {path.stem: text(path) for path in sorted((HERE / "attempts").glob(f"*/{kata}/*.py"))}
    rows = _rows("attempts", kata)
    return found | {row.name.replace(" ", "_"): row.plant(_master(kata)) for row in rows}


def mistakes(kata: str) -> dict[str, str]:
    """Wrong attempts at a kata, by what is wrong with them."""
    found = {path.stem.replace("_", " "): text(path) for path in sorted((HERE / "mistakes").glob(f"*/{kata}/*.py"))}
    for row in _rows("mistakes", kata):
        style = row.note.removeprefix("of ")
        found[row.name] = row.plant(right_attempts(kata)[style] if style else _master(kata))
    return found


def _rows(folder: str, kata: str) -> list[Bug]:
    return [row for path in (HERE / folder).glob(f"*/{kata}.txt") for row in table(path.read_text("utf-8"))]


def _master(kata: str) -> str:
    return next(SOLUTIONS.rglob(f"{kata}.py")).read_text("utf-8")


def text(path: Path) -> str:
    """A candidate's file with what it builds on."""
    return re.sub(
        r"^# with (\S+)$",
        lambda line: text(HERE / "attempts" / f"{line[1]}.py"),
        path.read_text("utf-8"),
        flags=re.MULTILINE,
    )
