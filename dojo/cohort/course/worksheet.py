"""Moodle's grading worksheet: when each student has handed in, and the layout in which Moodle takes grades back.

It is the CSV that an assignment's "Download grading worksheet" gives. Moodle's importer,
mod/assign/feedback/offline/importgradeslib.php, needs its columns Identifier, Grade and Last modified (grade), and
takes Feedback comments; the other columns go back as they came.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from dojo.cohort.course import reading
from dojo.cohort.course.roster import Roster

IDENTIFIER, NAME, EMAIL, NUMBER = "identifier", "full name", "email address", "id number"
HANDED_IN, GRADE, MOST, COMMENTS = "last modified (submission)", "grade", "maximum grade", "feedback comments"
NEEDED = (IDENTIFIER, NAME, GRADE, "last modified (grade)")
EXAMPLE = "Identifier,Full name,Email address,Status,Grade,Maximum Grade,...,Last modified (grade),Feedback comments"
TIMES = ("%A, %d %B %Y, %I:%M %p", "%A, %B %d, %Y, %I:%M %p", "%d %B %Y, %I:%M %p", "%A, %d %B %Y, %H:%M")
NEVER = ("", "-")


@dataclass(frozen=True)
class Worksheet:
    """The rows of a worksheet, and whose each is."""

    path: Path
    rows: tuple[tuple[str, reading.Row], ...] = ()  # by student

    @property
    def times(self) -> dict[str, datetime]:
        """By student when they have last handed in, in Moodle's own zone. Raises Trouble."""
        cells = {student: (row, row.get(HANDED_IN)) for student, row in self.rows}
        return {student: _time(row, text) for student, (row, text) in cells.items() if text not in NEVER}

    def filled(self, points: Mapping[str, tuple[str, str]], most: str) -> str:
        """The worksheet with points and comments by student; rows of others are left out, and so stay as they are."""
        with self.path.open(encoding="utf-8-sig", newline="") as file:
            heads = next(csv.reader(file))
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        writer.writerow(heads)
        for student, row in self.rows:
            if student in points:
                grade, comment = points[student]
                cells = {**row.cells, GRADE: grade, COMMENTS: comment}
                if MOST in row.cells:
                    cells[MOST] = row.get(MOST) or most
                writer.writerow([cells.get(head.strip().lower(), "") for head in heads])
        return out.getvalue()


def read(path: Path, roster: Roster) -> Worksheet:
    """A worksheet, its rows under the names that results have. Raises Trouble."""
    found = []
    for row in reading.rows(path, NEEDED, EXAMPLE):
        number = row.get(IDENTIFIER).rpartition(" ")[2]
        name = row.get(NAME) or row.get(IDENTIFIER)
        marks = (row.get(EMAIL), row.get(NUMBER))
        named = next((each for word in (*marks, name) if word and len(each := roster.named(word)) == 1), ())
        found.append((named[0] if named else name, row, number))
    names = [name for name, _, _ in found]
    twins = {name for name in names if names.count(name) > 1}  # submissions tell these apart by Moodle's number
    return Worksheet(path, tuple((f"{name} ({number})" if name in twins else name, row) for name, row, number in found))


def _time(row: reading.Row, text: str) -> datetime:
    for form in TIMES:
        try:
            return datetime.strptime(" ".join(text.split()), form)
        except ValueError:
            continue
    raise row.wrong(f"'{text}' is no time as Moodle writes it in English: set Moodle to English and download it anew")
