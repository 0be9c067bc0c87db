"""What a student is told: the verdict on each of their katas, with pictures, and nothing about anybody else."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from dojo.cohort.course.rubric import Rubric
from dojo.cohort.outputs.grades import Class, Row, Stand, in_a_line, short
from dojo.verdict.causes import shared_by
from dojo.verdict.page import html
from dojo.verdict.page.github import fenced, plain
from dojo.verdict.screen.text import readable

WAITS = "A person will look at this one. Until then it counts neither for you nor against you."
DECIDED = "There is no verdict on it: the points are a person's."
NOTHING = "No file for this kata was handed in."


def own_verdict(row: Row) -> dict[str, Any]:
    """A verdict that calls the attempt by its file's name: where a teacher keeps it is nothing to tell."""
    assert row.result is not None
    verdict = row.result.verdict
    long = str(verdict.get("attempt", ""))
    name = PurePath(long).name or f"{row.kata}.py"

    def anonymous(text: str) -> str:
        return text.replace(long, name) if long else text

    checks = [check | {"message": anonymous(check["message"])} for check in verdict.get("checks", [])]
    return verdict | {"attempt": name, "message": anonymous(verdict.get("message", "")), "checks": checks}


def page(found: Class, student: str) -> str:
    """A student's page."""
    rows = found.shown(student)
    graded = {row.kata: own_verdict(row) for row in rows if row.result is not None and not row.doubt}
    return html.render(
        "cohort/outputs/feedback.html",
        title=f"Feedback for {student}",
        heads=_heads(found),
        lines={row.kata: _cells(found, row) for row in rows},
        total=_total(found, student),
        rows=rows,
        word_for=word_for,
        verdicts=dict(zip(graded, html.shown(graded.values()), strict=True)),
        problems=problems_of(found, student),
    )


def markdown(found: Class, student: str) -> str:
    """The same as text, without pictures."""
    heads = _heads(found)
    lines = [f"# Feedback for {plain(student)}", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    rows = found.shown(student)
    lines += [f"| {' | '.join([plain(row.kata), *map(plain, _cells(found, row))])} |" for row in rows]
    for total in _total(found, student):
        lines += ["", plain(total)]
    for row in rows:
        lines += ["", f"## {plain(row.kata)}: {row.verdict}", ""]
        lines += [line for note in row.notes() for line in (plain(note), "")]
        lines += _body(row)
    if problems := problems_of(found, student):
        lines += ["", "## What could not be read", ""]
        lines += [f"- {plain(name)}: {plain(why)}" for name, why in problems]
    return "\n".join(lines) + "\n"


def _heads(found: Class) -> list[str]:
    return ["kata", "verdict", *found.rules.course.visible, *(["points"] if found.rubric else [])]


def _cells(found: Class, row: Row) -> list[str]:
    tiers = row.result.tiers if row.result and not row.doubt else {}
    cells = [row.verdict, *(tiers.get(tier, "") for tier in found.rules.course.visible)]
    if found.rubric is not None:
        points, most = _points(found, row, found.rubric)
        cells.append("" if points is None else f"{short(points)} of {short(most)}")
    return cells


def _points(found: Class, row: Row, rubric: Rubric) -> tuple[float | None, float]:
    """What a row counts, and of how much, as far as its student is shown it."""
    if row.decision or not found.held_back:
        return row.points(rubric), rubric.most(row.kata)
    earned, worth = row.earned(rubric), rubric.of_tiers(row.kata)
    shown = found.rules.course.visible
    return None if earned is None else sum(earned[tier] for tier in shown), sum(worth[tier] for tier in shown)


def problems_of(found: Class, student: str) -> list[tuple[str, str]]:
    """The student's files that could not be read, and why."""
    return [(PurePath(each.path).name, each.why) for each in found.problems if each.student == student]


def _total(found: Class, student: str) -> list[str]:
    """The sum of points, and what is held back of it."""
    if not found.katas:
        return []
    if found.held_back:
        kept = " and ".join(found.held_back)
        return [f"Only {' and '.join(found.rules.course.visible) or 'nothing'} is shown here: {kept} will count too."]
    if found.rubric is None:
        return []
    points, most = found.points(student)
    return [f"All katas together: {short(points)} of {short(most)} points."]


def word_for(row: Row) -> str:
    """What a student is told of a kata without a verdict."""
    if row.result is None:
        return f"{NOTHING} {row.problem}".strip()
    return DECIDED if row.decision else WAITS


def _body(row: Row) -> list[str]:
    if row.result is None or row.doubt:
        return [plain(word_for(row))]
    verdict = own_verdict(row)
    if not row.causes:
        if row.stand is Stand.BROKEN:
            return [plain(in_a_line(verdict["message"])), "", *fenced(verdict["message"])]
        if verdict["message"]:
            return fenced(verdict["message"])
        return ["Every check passed." if row.stand is Stand.PASSED else ""]
    messages = {check["name"]: check["message"] for check in verdict["checks"]}
    lines = []
    for check in row.causes:
        lines += [
            f"### {check['tier']}: {plain(readable(check['name'], check['outcome'] == 'wrong'))}: {check['outcome']}",
            "",
        ]
        lines += [f"It equals **{plain(check['diagnosis'])}**.", ""] if check.get("diagnosis") else []
        lines += [*fenced(messages[check["name"]]), ""]
        others = sum(each.get("cause") == check["name"] and each["name"] != check["name"] for each in row.checks)
        lines += [f"{shared_by(others).capitalize()}.", ""] if others else []
    return lines[:-1]
