"""A student's `results.json` as Gradescope's autograders write it, to upload or to give back from one.

The format is that of https://gradescope-autograders.readthedocs.io/en/latest/specs/: a test for each kata and tier.
Tiers that are held back are hidden tests, which count; while there are any, Gradescope shows students no sum.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from dojo.cohort.course.rubric import TIERS, Rubric
from dojo.cohort.outputs.feedback import WAITS, own_verdict, problems_of, word_for
from dojo.cohort.outputs.grades import Class, Row
from dojo.verdict.screen.text import readable
from dojo.verdict.types import HARMLESS

SHOWN, HIDDEN = "visible", "hidden"  # to the student, as soon as the teacher uploads it; never
LONGEST = 20_000  # characters of an output
EVEN = Rubric()  # without a rubric each tier is a point


def of_student(found: Class, student: str) -> str:
    """What Gradescope shows of a student. What waits for a person has no score, and is in no sum."""
    rubric, rows = found.rubric or EVEN, found.rows_of(student)
    visible = found.rules.course.visible
    tests = [test for row in rows for test in _tests(row, rubric, visible)]
    scored = sum(test.get("score", 0.0) for test in tests)
    waiting = [row.kata for row in rows if row.why_a_person]
    notes = list[str]() if found.rubric else ["No rubric was given: each tier of each kata is one point."]
    notes += [f"Not graded yet, for a person looks at it first: {', '.join(waiting)}."] if waiting else []
    notes += [f"{name}: {why}" for name, why in problems_of(found, student)]
    seconds = sum(row.result.seconds or row.result.verdict.get("seconds", 0.0) for row in rows if row.result)
    whole = {
        "score": round(rubric.bounded(scored), 4),
        "execution_time": round(seconds),
        "output": "\n".join(notes),
        "output_format": "text",
        "test_output_format": "text",
        "test_name_format": "text",
        "visibility": SHOWN,
        "tests": tests,
    }
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


def _tests(row: Row, rubric: Rubric, visible: Sequence[str]) -> list[dict[str, Any]]:
    earned, worth = row.earned(rubric), rubric.of_tiers(row.kata)
    notes = "\n".join(row.notes())
    if row.decision:
        points = {"score": round(row.decision.points, 4), "max_score": round(rubric.most(row.kata), 4)}
        return [{"name": row.kata, **points, "output": notes, "visibility": SHOWN}]
    if earned is None:
        return [{"name": row.kata, "output": WAITS, "visibility": SHOWN}]
    left = 1.0 - (row.late.lost if row.late and row.result else 0.0)
    seen = row.seen(visible)
    tests = [_test(seen if tier in visible else row, tier, earned[tier], worth[tier], left) for tier in TIERS]
    for test, tier in zip(tests, TIERS, strict=True):
        test["visibility"] = SHOWN if tier in visible else HIDDEN
    return [{"name": f"{row.kata}: late", "output": notes, "visibility": SHOWN}, *tests] if notes else tests


def _test(row: Row, tier: str, score: float, worth: float, left: float) -> dict[str, Any]:
    """A tier as a test: `status` tells where it is worth nothing, `left` the share that being late has left of it."""
    holds = row.result is not None and bool(row.result.tiers) and row.result.tiers.get(tier, "passed") == "passed"
    lost = holds and score < worth * left  # as the rubric gives nothing without core
    output = f"This holds, and counts once core does.\n\n{_output(row, tier)}" if lost else _output(row, tier)
    return {
        "name": f"{row.kata}: {tier}",
        "score": round(score, 4),
        "max_score": round(worth, 4),
        "status": "passed" if holds and not lost else "failed",
        "output": output[:LONGEST],
    }


def _output(row: Row, tier: str) -> str:
    if row.result is None:
        return word_for(row)
    verdict = own_verdict(row)
    mine = [check for check in verdict.get("checks", []) if check["tier"] == tier]
    bad = [check for check in mine if check["outcome"] not in HARMLESS]
    if not mine:
        nothing = "not started" if verdict["verdict"] == "empty" else f"{row.kata} has no {tier} checks"
        return verdict["message"] or nothing
    lines = [f"{len(mine) - len(bad)} of {len(mine)} checks passed"]
    telling = {check["name"] for check in row.causes}
    for check in bad:
        if check["name"] in telling:
            lines += ["", f"{readable(check['name'], check['outcome'] == 'wrong')}: {check['outcome']}"]
            lines += [f"equals: {check['diagnosis']}"] if check.get("diagnosis") else []
            lines.append(check["message"])
    if others := [check for check in bad if check["name"] not in telling]:
        lines += ["", "of a cause that is told already:", *(f"- {readable(check['name'])}" for check in others)]
    return "\n".join(lines)
