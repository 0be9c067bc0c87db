"""What proves a kata's grader, and stands beside it in `graders/TRACK/NAME/`: wrong answers, and right ones.

- `wrong.txt`: every wrong answer as a row (see `content.rows`), an edit of the solution, of a kind that its mark tells:
  without a mark, or with one that is none of those below, a **known bug**, which verdicts name and hunts plant:
  `[raises]` if it shows as an exception, a word for its kind in a kata that asks for a test;
  `[mistake]`, too rare or too odd to be named; `[mistake of STYLE]` is an edit of that right attempt instead;
  `[mutant KIND]`, a mistake that a test which the kata asks for should reject;
  `[equivalent]`, no mistake: the name is a regular expression of "line  →  changed line", the text below it the reason;
  `[builds on]`, the name of a kata whose known bugs are taken over wherever their edits fit this solution;
  `[not here]`, the name of one among them that this kata makes impossible or harmless, and why.
- `right.txt`: right answers that differ from the solution in a line or a few, as rows. Where the kata asks for a test,
  the rows are right programs, as below.
- `right/STYLE.py`: right answers as whole files. A line `# with TRACK/NAME/STYLE` stands for the text of another one,
  as a candidate pastes what was written before, be it of `right/` or of `field/`, and `# with TRACK/NAME` for that
  kata's solution. Where the kata asks for a test, a file without one is a right program that every test must accept; it
  may have other parameters.
- `wrong/WHAT.py`: mistakes that are no edit of anything.
- `field/STYLE.py`: whole answers as the field writes them, right in core, not all of them in robust.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from dojo.content import catalog, master
from dojo.content.catalog import Kata
from dojo.content.rows import BadRow, Row, read

MISTAKE, OF, MUTANT, EQUIVALENT = "mistake", "mistake of ", "mutant ", "equivalent"
BUILDS_ON, NOT_HERE, RAISES = "builds on", "not here", "raises"
WITH = re.compile(r"^# with (\w+/\w+(?:/\w+)?)$", re.MULTILINE)  # a line for which another answer stands
TEST = "test"  # what an attempt calls the test that its kata asks for
WIDER = Row(r"float32.*→.*float64", "float64 is wider than the float32 that is asked for.", (), EQUIVALENT)


@dataclass(frozen=True)
class Hunted:
    """What a hunt has planted in the solution of a kata, and the mistakes that its test is held against besides."""

    planted: tuple[str, ...]
    mutants: tuple[str, ...]
    handed_out: str = ""  # the program with the bugs, where that is no edit of the solution


def bugs(kata: Kata) -> list[Row]:
    """The known bugs of a kata: its own, then those it takes over from the katas that it builds on."""
    table, source = _table(kata), master.read_text(kata.master)
    found = {row.name: row for row in table if _is_bug(row)}
    left_out = {row.name for row in table if row.mark == NOT_HERE}
    for row in (row for row in table if row.mark == BUILDS_ON):
        for bug in bugs(catalog.named(row.name, kata.root)):
            if bug.name not in left_out and bug.fits(source):
                found.setdefault(bug.name, bug)
    return list(found.values())


def own_bugs(kata: Kata) -> list[Row]:
    """Those that stand in its own table."""
    return [row for row in _table(kata) if _is_bug(row)]


def mistakes(kata: Kata) -> dict[str, str]:
    """The wrong answers besides the known bugs, by what is wrong with them."""
    found = {path.stem.replace("_", " "): _whole(path, kata.root) for path in sorted(kata.proofs.glob("wrong/*.py"))}
    right, solution = _right(kata), master.read_text(kata.master)
    for row in _table(kata):
        if row.mark == MISTAKE:
            found[row.name] = row.plant(solution)
        elif row.mark.startswith(OF):
            style = row.mark.removeprefix(OF)
            if style not in right:
                raise BadRow(f"{row.place}: no right attempt is called {style!r}: there are {', '.join(right)}")
            found[row.name] = row.plant(right[style])
    return found


def place(kata: Kata, name: str) -> str:
    """Where a wrong answer of this name stands, as FILE:LINE."""
    rows = (row.place for row in _table(kata) if row.name == name)
    return next(rows, kata.say(kata.proofs / "wrong" / f"{name.replace(' ', '_')}.py"))


def mutants(kata: Kata) -> list[Row]:
    """The mistakes that a test of the learner's should reject, marked with their kinds."""
    return [replace(row, mark=row.mark.removeprefix(MUTANT)) for row in _table(kata) if row.mark.startswith(MUTANT)]


def equivalents(kata: Kata) -> list[Row]:
    """The changes of the solution that are no mistakes, those of the katas whose bugs it takes over included."""
    table = _table(kata)
    found = [WIDER, *(row for row in table if row.mark == EQUIVALENT)]
    for row in (row for row in table if row.mark == BUILDS_ON):
        found += equivalents(catalog.named(row.name, kata.root))
    return found


def right_attempts(kata: Kata) -> dict[str, str]:
    """The right answers, by style."""
    programs = right_programs(kata) if TEST in master.names(kata) else {}
    return {style: source for style, source in _right(kata).items() if style not in programs}


def right_place(kata: Kata, style: str) -> str:
    """Where a right answer of this style stands."""
    path = kata.proofs / "right" / f"{style}.py"
    rows = (row.place for row in read(kata.proofs / "right.txt") if row.name.replace(" ", "_") == style)
    return kata.say(path) if path.exists() else next(rows)


def right_programs(kata: Kata) -> dict[str, str]:
    """The right programs that a test must accept, by style: files without a test, and rows, which edit the solution."""
    rows = {row.name.replace(" ", "_") for row in read(kata.proofs / "right.txt")}
    return {style: source for style, source in _right(kata).items() if style in rows or not has_test(source)}


def has_test(source: str) -> bool:
    """Whether a source defines a test."""
    return re.search(rf"^def {TEST}\(", source, re.MULTILINE) is not None


def field(kata: Kata) -> dict[str, str]:
    """The answers as the field writes them, by style."""
    return {path.stem: _whole(path, kata.root) for path in sorted(kata.proofs.glob("field/*.py"))}


def taken_over(kata: Kata) -> set[str]:
    """The katas whose known bugs, or answers, a kata takes over."""
    wholes = (path.read_text("utf-8") for path in files(kata) if path.suffix == ".py")
    pasted = {line.split("/")[1] for text in wholes for line in WITH.findall(text)}
    return pasted | {row.name for row in _table(kata) if row.mark == BUILDS_ON}


def files(kata: Kata) -> Iterator[Path]:
    """The contract, and all that proves it."""
    return (path for path in sorted(kata.proofs.rglob("*")) if path.suffix in (".py", ".txt"))


def _right(kata: Kata) -> dict[str, str]:
    found = {path.stem: _whole(path, kata.root) for path in sorted(kata.proofs.glob("right/*.py"))}
    solution = master.read_text(kata.master)
    return found | {row.name.replace(" ", "_"): row.plant(solution) for row in read(kata.proofs / "right.txt")}


def _table(kata: Kata) -> list[Row]:
    found = read(kata.proofs / "wrong.txt")
    for row in found:
        if bool(row.edits) is (row.mark in (EQUIVALENT, BUILDS_ON, NOT_HERE)):
            raise BadRow(
                f"{row.place}: {row.name!r} has {'an' if row.edits else 'no'} edit: a line `old  →  new` "
                f"{'does not belong here' if row.edits else 'is missing'}"
            )
    return found


def _is_bug(row: Row) -> bool:
    others = (MISTAKE, EQUIVALENT, BUILDS_ON, NOT_HERE)
    return row.mark not in others and not row.mark.startswith((OF, MUTANT))


def _whole(path: Path, root: Path) -> str:
    """A file with what it builds on."""

    def named(line: re.Match[str]) -> str:
        track, name, *style = line[1].split("/")
        if not style:
            return master.read_text(root / "solutions" / track / f"{name}.py")
        right, field = (root / "graders" / track / name / kind / f"{style[0]}.py" for kind in ("right", "field"))
        return _whole(field if field.exists() and not right.exists() else right, root)

    return WITH.sub(named, path.read_text("utf-8"))
