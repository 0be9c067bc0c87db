"""All that a teacher gets once a class is graded, in one folder."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dojo.cohort.outputs import class_page, feedback, gradescope, tables
from dojo.cohort.outputs.folder import Folder, file_names
from dojo.cohort.outputs.grades import Class, count
from dojo.cohort.outputs.rubric import Rubric
from dojo.cohort.records import Problem, Result
from dojo.verdict.page import html

MADE = re.compile(r"<small>made [^;]*;")  # of a page: when, which alone is no news


def write_all(
    results: Sequence[Result],
    problems: Sequence[Problem],
    pairs: Sequence[tuple[str, str, str, float]],
    out: Path,
    rubric: Rubric | None,
) -> list[Path]:
    """Write everything into `out`, and return the files. What changes is kept in `out/earlier/`, by the time.

    `results.csv`, with a rubric `grades.csv`, `class.html`, and for each student `feedback/NAME.md`,
    `feedback/NAME.html` and `gradescope/NAME/results.json`. `pairs` are two students, or one and "the solution", the
    kata, and the share of their tokens that match.
    """
    found, folder = Class(results, problems, rubric), Folder(out)
    names = file_names(found.students)
    folder.write("results.csv", tables.results(found))
    if rubric is not None:
        folder.write("grades.csv", tables.points(found))
    pages = {student: f"feedback/{name}.html" for student, name in names.items()}
    title = f"A class of {count(len(found.students), 'student')}"
    folder.write("class.html", html.page(class_page.body(found, pairs, pages), title), _undated)
    for student, name in names.items():
        folder.write(pages[student], html.page(feedback.html(found, student), f"Feedback for {student}"), _undated)
        folder.write(f"feedback/{name}.md", feedback.markdown(found, student))
        folder.write(f"gradescope/{name}/results.json", gradescope.of_student(found, student))
    return folder.written


def _undated(page: str) -> str:
    return MADE.sub("", page, count=1)
