"""Grades what a notebook sends: one JSON object on standard input, the verdict as text and HTML on standard output."""

from __future__ import annotations

import base64
import io
import json
import sys

from dojo.grading.judge_process import JudgeProcess


def main() -> None:
    """Grade what is asked for."""
    judge = JudgeProcess()  # it imports torch meanwhile
    try:
        given = json.load(sys.stdin)
        from dojo.content import catalog
        from dojo.grading import steps
        from dojo.grading.options import Entry, Options, fresh_seed
        from dojo.judge.protocol import PickledCells
        from dojo.notebook import html
        from dojo.practice import history, progress
        from dojo.verdict.screen.terminal import Screen

        kata = catalog.one(given["kata"])
        pickled_cells = PickledCells(base64.b64decode(given["pickled"]), tuple(map(tuple, given["cells"])))
        entry = Entry.of_notebook(kata, given["text"], pickled_cells)
        if step := given["step"]:
            entry = steps.entry(kata, step, given["text"], pickled_cells, entry.label)
        text = io.StringIO()
        screen = Screen(text, force_plain=True)
        verdict = judge.grade([entry], Options(fresh_seed(given["seed"])), screen)[0]
        verdict.help = "" if step else progress.aid(kata, entry.source).words
    finally:
        judge.close()
    if not step:
        history.record([(kata, entry.source, verdict)])
    screen.verdict(verdict)
    json.dump({"text": text.getvalue(), "html": html.verdict_html(verdict)}, sys.stdout)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
