"""A class's points in the layouts in which platforms take grades back: one number a student, the sum of all katas.

- **Canvas**, Grades, "Import": the header that canvas-lms asks for in lib/gradebook_importer.rb, which is Student, ID,
  SIS User ID, SIS Login ID, Section, and then assignments; below it the row Points Possible.
- **Moodle**, with the grading worksheet of the assignment: the same file with grades and comments, for "Upload grading
  worksheet". Without it: ID number, Email address and the assignment, for Grades, Import, CSV file, which asks which
  column is what.
- **Gradescope** takes no table of grades: its results are those of its autograder, `gradescope/NAME/results.json`.

Who waits for a person is left out, and so keeps what the platform has.
"""

from __future__ import annotations

from dojo.cohort.outputs.grades import Class, short
from dojo.cohort.outputs.tables import csv_text

CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
MOODLE = ("ID number", "Email address")


def tables(found: Class) -> dict[str, str]:
    """The tables by platform; those that need a roster or a worksheet only where there is one."""
    course = found.rules.course
    settled = [name for name in found.students if not any(row.why_a_person for row in found.rows_of(name))]
    points = {name: short(found.points(name)[0]) for name in settled} if found.rubric else {}
    if not points or not found.rubric:
        return {}
    most = short(min(sum(map(found.rubric.most, found.katas)), found.rubric.highest))
    members = [each for each in course.roster.members if each.name in points]
    tables = {}
    if members:
        rows = [(m.name, m.canvas, m.number, m.login or m.email, m.section, points[m.name]) for m in members]
        head = [*CANVAS, course.title]
        tables["canvas"] = csv_text(head, [["    Points Possible", "", "", "", "", most], *rows])
        tables["moodle"] = csv_text([*MOODLE, course.title], [(m.number, m.email, points[m.name]) for m in members])
    if course.worksheet:
        tables["moodle"] = course.worksheet.filled({n: (p, _comment(found, n)) for n, p in points.items()}, most)
    return tables


def _comment(found: Class, student: str) -> str:
    """What Moodle shows beside the grade, of what the student may see."""
    rows = found.shown(student)
    return "; ".join(" ".join([f"{row.kata}: {row.verdict}.", *row.notes()]) for row in rows)
