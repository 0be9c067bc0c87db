"""Grades one submission as it arrives on Gradescope, in the folder that its autograder finds there.

Read are `source/autograder.json`, which `starter --autograder` writes, and `submission/`; written is
`results/results.json`. Nothing is written when the grading itself fails: Gradescope then tells the staff.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

from dojo.cohort.course.rubric import Rubric
from dojo.cohort.course.settings import Course, Rules
from dojo.cohort.engine import Job, LocalEngine, left_to_a_person, results
from dojo.cohort.outputs.grades import Class
from dojo.cohort.outputs.platforms import gradescope
from dojo.cohort.records import knowing_each_other
from dojo.cohort.store import Terms
from dojo.cohort.submissions.student import Handed, Katas, Student
from dojo.cohort.submissions.tree import OnDisk
from dojo.content import catalog, files
from dojo.content.catalog import Trouble
from dojo.judge import sandbox
from dojo.judge.fork_server import ForkServer

YOU = "you"
MINUTES = 9  # for all katas; Gradescope ends an autograder after ten, unless told otherwise


def main(where: Path) -> int:
    """Grade what lies in this folder's `submission`."""
    import torch

    settings = json.loads((where / "source" / "autograder.json").read_text("utf-8"))
    katas = {kata.name: kata for kata in catalog.select(settings["katas"])}
    student = Student(YOU, Katas(katas))
    handed = student.attempts([Handed(OnDisk(where / "submission"))])
    own = {each.kata: each for each in knowing_each_other(handed, katas)}
    terms = Terms(settings["seed"], "cpu", torch.__version__, submission_limit=60.0 * MINUTES)
    found, put_off = [], list[Job]()
    if own:
        with closing(ForkServer(around=_around())) as server, closing(LocalEngine(server, 1)) as engine:
            wanted = [(YOU, name) for name in own]
            found = list(results(wanted, lambda _, kata: own[kata], terms, engine, put_off.append))
    found += [left_to_a_person(job, job.losses[-1]) for job in put_off]
    rubric = Rubric(**settings["rubric"]) if settings["rubric"] else None
    rules = Rules(Course(rubric=rubric, visible=tuple(settings["visible"])))
    text = gradescope.of_student(Class(found, student.problems, rules, tuple(katas)), YOU)
    files.write_atomic(where / "results" / "results.json", text)
    return 0


def _around() -> list[str]:
    """bubblewrap's words; a container may not let it work, and then the judge's own walls are all there are."""
    try:
        return sandbox.prefix()
    except Trouble as trouble:
        print(f"without bubblewrap: {trouble}", flush=True)
        return []


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
