"""What a student is told: the verdict on each of their katas, with pictures, and nothing about anybody else."""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from dojo.cohort.outputs.grades import Class, Row, Stand, in_a_line, short
from dojo.cohort.outputs.rubric import TIERS
from dojo.verdict.causes import shared_by
from dojo.verdict.page.html import esc, verdict_section
from dojo.verdict.page.markdown import fenced, plain
from dojo.verdict.screen.text import readable

WAITS = "A person will look at this one. Until then it counts neither for you nor against you."
NOTHING = "No file for this kata was handed in."


def own_verdict(row: Row) -> dict[str, Any]:
    """A verdict that calls the attempt by its file's name: where a teacher keeps it is nothing to tell."""
    assert row.result is not None
    verdict = row.result.verdict
    long = str(verdict.get("attempt", ""))
    name = PurePath(long).name or f"{row.kata}.py"

    def said(text: str) -> str:
        return text.replace(long, name) if long else text

    checks = [check | {"message": said(check["message"])} for check in verdict.get("checks", [])]
    return verdict | {"attempt": name, "message": said(verdict.get("message", "")), "checks": checks}


def html(found: Class, student: str) -> str:
    """The body of a student's page."""
    rows = found.of(student)
    heads = ["kata", "verdict", *TIERS, *(["points"] if found.rubric else [])]
    head = "".join(f'<th scope="col">{name}</th>' for name in heads)
    lines = "".join(f'<tr><th scope="row">{esc(row.kata)}</th>{_tds(_cells(found, row))}</tr>' for row in rows)
    parts = [
        f'<div class="wide" role="group" aria-label="your katas" tabindex="0"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>{''.join(f'<p>{esc(line)}</p>' for line in _total(found, student))}"
    ]
    for row in rows:
        parts.append(f'<h2 id="{esc(row.kata)}">{esc(row.kata)}</h2>')
        waits = row.result is None or row.stand is Stand.PERSON
        parts.append(f"<p>{esc(word_for(row))}</p>" if waits else verdict_section(own_verdict(row), opened=True))
    problems = "".join(
        f"<li>{esc(PurePath(each.path).name)}: {esc(each.why)}</li>"
        for each in found.problems
        if each.student == student
    )
    return "".join(parts) + (f"<h2>What could not be read</h2><ul>{problems}</ul>" if problems else "")


def markdown(found: Class, student: str) -> str:
    """The same as text, without pictures."""
    heads = ["kata", "verdict", *TIERS, *(["points"] if found.rubric else [])]
    lines = [f"# Feedback for {plain(student)}", "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    rows = found.of(student)
    lines += [f"| {' | '.join([plain(row.kata), *map(plain, _cells(found, row))])} |" for row in rows]
    for total in _total(found, student):
        lines += ["", plain(total)]
    for row in rows:
        lines += ["", f"## {plain(row.kata)}: {row.verdict}", "", *_told(row)]
    if own := [each for each in found.problems if each.student == student]:
        lines += ["", "## What could not be read", ""]
        lines += [f"- {plain(PurePath(each.path).name)}: {plain(each.why)}" for each in own]
    return "\n".join(lines) + "\n"


def _cells(found: Class, row: Row) -> list[str]:
    tiers = row.result.tiers if row.result and not row.why_a_person else {}
    cells = [row.verdict, *(tiers.get(tier, "") for tier in TIERS)]
    if found.rubric is not None:
        earned = row.earned(found.rubric)
        cells.append("" if earned is None else f"{short(sum(earned.values()))} of {short(found.rubric.most(row.kata))}")
    return cells


def _tds(cells: list[str]) -> str:
    return "".join(f"<td>{esc(cell)}</td>" for cell in cells)


def _total(found: Class, student: str) -> list[str]:
    if found.rubric is None or not found.katas:
        return []
    points, most = found.points(student)
    return [f"All katas together: {short(points)} of {short(most)} points."]


def word_for(row: Row) -> str:
    """What a student is told of a kata without a verdict."""
    return WAITS if row.result is not None else f"{NOTHING} {row.problem}".strip()


def _told(row: Row) -> list[str]:
    if row.result is None or row.stand is Stand.PERSON:
        return [plain(word_for(row))]
    verdict = own_verdict(row)
    if not row.causes:
        if row.stand is Stand.BROKEN:
            return [plain(in_a_line(verdict["message"])), "", *fenced(verdict["message"])]
        return (
            fenced(verdict["message"])
            if verdict["message"]
            else ["Every check passed." if row.stand is Stand.PASSED else ""]
        )
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
