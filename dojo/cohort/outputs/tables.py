"""The tables for a spreadsheet: a row for each student and kata, and a row for each student's points."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from dojo.cohort.course.rubric import TIERS
from dojo.cohort.outputs.grades import Class, Row, short

OBEYED = "=+-@＝＋－＠|%\t\r\n"  # what a spreadsheet takes a cell that begins with it for: a formula, a command


def safe(value: object) -> str:
    """A cell that a spreadsheet shows and does not run."""
    text = "".join(c if c.isprintable() else " " for c in str(value)).strip()
    return f"'{text}" if isinstance(value, str) and text[:1] and text[0] in OBEYED else text


def results(found: Class) -> str:
    """`results.csv`: a row for each submission, and one for each kata that a student handed in nothing for."""
    heads = ["student", "kata", "verdict", *TIERS, "points", "of", "late", "decided", "seconds", "first cause", "file"]
    places = {student: place for place, student in enumerate(found.students)}
    rows = sorted([*found.all_rows(), *found.missing()], key=lambda row: (places[row.student], row.kata))
    return csv_text(heads, (_result(found, row) for row in rows))


def _result(found: Class, row: Row) -> list[object]:
    earned = row.points(found.rubric) if found.rubric else None
    points = ["", ""] if found.rubric is None or earned is None else [short(earned), short(found.rubric.most(row.kata))]
    tiers = row.result.tiers if row.result and not row.doubt else {}
    seconds = f"{row.result.seconds or row.result.verdict.get('seconds', 0):.1f}" if row.result else ""
    where = row.result.submitted.path if row.result else ""
    return [
        row.student,
        row.kata,
        row.verdict,
        *(tiers.get(t, "") for t in TIERS),
        *points,
        row.late.text if row.late else "",
        row.decision.reason if row.decision else "",
        seconds,
        row.first_cause,
        where,
    ]


def points(found: Class) -> str:
    """`grades.csv`: what each student has, of how much, by kata; nothing where a person must look first."""
    assert found.rubric is not None
    rows, people, due = [], found.rules.course.roster.by_name, found.rules.course.deadlines
    for student in found.students:
        each = [row.points(found.rubric) for row in found.rows_of(student)]
        member = people.get(student)
        known = [member.number, member.email, member.group] if member else ["", "", ""]
        late = {row.kata: row.late for row in found.rows_of(student) if row.late}
        total, most = found.points(student)
        waiting = " ".join(row.kata for row in found.rows_of(student) if row.why_a_person)
        by_kata = ["" if points is None else short(points) for points in each]
        rows.append([student, *known, short(total), short(most), *by_kata, due.used(late), waiting])
    heads = ["student", "number", "email", "group", "points", "of", *found.katas, "late days used"]
    return csv_text([*heads, "a person must look at"], rows)


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as text. It begins with the mark by which a spreadsheet knows UTF-8."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(heads)
    writer.writerows([safe(cell) for cell in row] for row in rows)
    return "\ufeff" + out.getvalue()
