"""What a person has decided: points for a student's kata that stand above every verdict, in a CSV of the teacher's."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from dojo.cohort.course import reading
from dojo.cohort.course.roster import Roster

COLUMNS = ("student", "kata", "points", "reason")
EXAMPLE = "student,kata,points,reason"


@dataclass(frozen=True)
class Decision:
    """Points that a person gives, and why, as the student is told it."""

    points: float
    reason: str


def read(
    path: Path, roster: Roster, students: Collection[str], katas: Collection[str]
) -> dict[tuple[str, str], Decision]:
    """Decisions by student and kata; one for a group holds for each member. Raises Trouble with the line.

    `students` are those who have handed in; a student may be named as the roster or the submission does.
    """
    found: dict[tuple[str, str], Decision] = {}
    lines: dict[tuple[str, str], int] = {}
    for row in reading.rows(path, COLUMNS, EXAMPLE):
        who, kata, grade, reason = map(row.get, COLUMNS)
        named = roster.named(who, students)
        if not named:
            raise row.wrong(f"nobody is called '{who}'{reading.meant(who, sorted({*roster.by_name, *students}))}")
        if kata not in katas:
            raise row.wrong(f"no kata that is graded is called '{kata}'{reading.meant(kata, katas)}")
        try:
            points = float(grade)
        except ValueError:
            points = math.nan
        if not 0 <= points < math.inf:
            raise row.wrong(f"'{grade}' are no points: write a number, 0 or more, such as 7.5")
        if not reason:
            raise row.wrong("it gives no reason: write what the student is to be told")
        for student in named:
            if (before := lines.setdefault((student, kata), row.line)) != row.line:
                raise row.wrong(f"line {before} decides about {student} and {kata} already: keep one of the two")
            found[student, kata] = Decision(points, reason)
    return found
