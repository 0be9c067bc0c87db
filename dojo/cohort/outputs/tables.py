"""The tables for a spreadsheet: a row for each student and kata, and a row for each student's points."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from dojo.cohort.outputs.grades import Class, Row, short
from dojo.cohort.outputs.rubric import TIERS

OBEYED = "=+-@＝＋－＠|%\t\r\n"  # what a spreadsheet takes a cell that begins with it for: a formula, a command


def safe(value: object) -> str:
    """A cell that a spreadsheet shows and does not run."""
    text = "".join(c if c.isprintable() else " " for c in str(value)).strip()
    return f"'{text}" if isinstance(value, str) and text[:1] and text[0] in OBEYED else text


def results(found: Class) -> str:
    """`results.csv`: a row for each submission, and one for each kata that a student handed in nothing for."""
    heads = ["student", "kata", "verdict", *TIERS, "points", "of", "seconds", "first cause", "file"]
    places = {student: place for place, student in enumerate(found.students)}
    rows = sorted([*found.all_rows(), *found.missing()], key=lambda row: (places[row.student], row.kata))
    return _csv(heads, (_result(found, row) for row in rows))


def _result(found: Class, row: Row) -> list[object]:
    earned = row.earned(found.rubric) if found.rubric else None
    points = [short(sum(earned.values())), short(found.rubric.most(row.kata))] if found.rubric and earned else ["", ""]
    tiers = row.result.tiers if row.result and not row.why_a_person else {}
    seconds = f"{row.result.seconds or row.result.verdict.get('seconds', 0):.1f}" if row.result else ""
    where = row.result.submitted.path if row.result else ""
    return [
        row.student,
        row.kata,
        row.verdict,
        *(tiers.get(t, "") for t in TIERS),
        *points,
        seconds,
        row.first_cause,
        where,
    ]


def points(found: Class) -> str:
    """`grades.csv`: what each student has, of how much, by kata; nothing where a person must look first."""
    assert found.rubric is not None
    rows = []
    for student in found.students:
        each = [row.earned(found.rubric) for row in found.of(student)]
        total, most = found.points(student)
        waiting = " ".join(row.kata for row in found.of(student) if row.why_a_person)
        rows.append(
            [student, short(total), short(most), *("" if e is None else short(sum(e.values())) for e in each), waiting]
        )
    return _csv(["student", "points", "of", *found.katas, "a person must look at"], rows)


def _csv(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as text. It begins with the mark by which a spreadsheet knows UTF-8."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(heads)
    writer.writerows([safe(cell) for cell in row] for row in rows)
    return "\ufeff" + out.getvalue()
