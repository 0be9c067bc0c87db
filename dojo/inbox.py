"""The judge of what a notebook sends: one JSON object on standard input, the verdict as text and HTML on output."""

from __future__ import annotations

import base64
import io
import json
import sys

from dojo.judge import nursery


def main() -> None:
    """Grade what is asked for."""
    hatchery = nursery.Zygote()  # before torch, so that both import it side by side
    try:
        given = json.load(sys.stdin)
        from dojo import catalog, grade, lesson_page, study
        from dojo.judge.proxy import Carried
        from dojo.screen import Screen

        kata = catalog.one(given["kata"])
        carried = Carried(base64.b64decode(given["pickled"]), tuple(map(tuple, given["cells"])))
        repeat = f"save the notebook, then: nox -s grade -- {kata.name}"
        entry = grade.Entry(kata, given["text"], "this notebook", repeat, carried)
        text = io.StringIO()
        screen = Screen(text, force_plain=True)
        options = grade.Options(grade.fresh_seed(given["seed"]))
        verdict = grade.side_by_side([entry], options, hatchery, screen)[0]
    finally:
        hatchery.close()
    if verdict.verdict == "passed":
        study.record_pass(kata, given["text"])
    grade.record([(kata, given["text"], verdict)])
    screen.verdict(verdict)
    json.dump({"text": text.getvalue(), "html": lesson_page.of(verdict)}, sys.stdout)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
