"""The page about a class: who got how far, why attempts fail, and what a person must look at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dojo.cohort.course.rubric import TIERS
from dojo.cohort.outputs.grades import SOLVED, Class, Row, Stand, count, reason, short
from dojo.verdict.page import html
from dojo.verdict.types import HARMLESS

MOST = 40  # rows of the tables of causes and checks
Pair = tuple[str, str, str, float]


def page(found: Class, pairs: Iterable[Pair], pages: Mapping[str, str], side_by_side: bool = False) -> str:
    """The page; `pages` are the feedback pages by student, and `alike.html` may have pairs side by side."""
    rows = list(found.rows.values())
    causes = _causes(rows)
    return html.render(
        "cohort/outputs/class_page.html",
        title=f"A class of {count(len(found.students), 'student')}",
        summary=_summary(found),
        stands=list(Stand),
        heads=["student", *found.katas, "right", "passed", *(["points"] if found.rubric else [])],
        students=[_student(found, student, pages[student]) for student in found.students],
        katas={kata: Counter(found.rows[name, kata].stand for name in found.students) for kata in found.katas},
        causes=causes.most_common(MOST),
        rarer=len(causes) - MOST,
        checks=_checks(rows),
        tiers=TIERS,
        for_a_person=found.for_a_person(),
        decided=[row for row in rows if row.decision],
        late=[row for row in rows if row.late],
        odd=[row for row in rows if row.result is not None and row.result.verdict.get("mentions")],
        pairs=sorted(pairs, key=lambda pair: (-pair[3], pair)),
        side_by_side=side_by_side,
        problems=sorted(found.problems),
        short=short,
    )


def _summary(found: Class) -> str:
    stands = Counter(row.stand for row in found.rows.values())
    graded = sum(stands.values()) - stands[Stand.MISSING] - stands[Stand.PERSON] - stands[Stand.DECIDED]
    solved = sum(stands[stand] for stand in SOLVED)
    parts = [
        count(len(found.students), "student"),
        count(len(found.katas), "kata"),
        f"{count(graded, 'attempt')} judged, of which {solved} right"
        + (f" ({solved / graded:.0%}), {stands[Stand.PASSED]} of them passed" if graded else ""),
        f"{stands[Stand.MISSING]} missing",
        f"{stands[Stand.PERSON]} for a person to look at",
        *([f"{stands[Stand.DECIDED]} decided by a person"] if stands[Stand.DECIDED] else []),
    ]
    return " · ".join(parts)


def _student(found: Class, student: str, page: str) -> dict[str, Any]:
    rows = found.rows_of(student)
    return {
        "name": student,
        "page": page,
        "rows": rows,
        "causes": " ".join(dict.fromkeys(row.first_cause for row in rows if row.first_cause)),
        "right": sum(row.stand in SOLVED for row in rows),
        "passed": sum(row.stand is Stand.PASSED for row in rows),
        "points": found.points(student) if found.rubric else None,
    }


def _causes(rows: Sequence[Row]) -> Counter[tuple[str, str, bool]]:
    """How many students fail by a kata and a cause, and whether that is a known bug's name."""
    known = Counter(
        (row.kata, check["diagnosis"] or reason(check), bool(check["diagnosis"]))
        for row in rows
        for check in {reason(check): check for check in row.causes}.values()  # one of those that say the same
    )
    known.update((row.kata, row.first_cause, False) for row in rows if row.stand is Stand.BROKEN)
    return known


def _checks(rows: Sequence[Row]) -> list[tuple[str, str, str, int, int]]:
    """The hardest checks: kata, tier and name, how many attempts failed it and of how many."""
    ran: Counter[tuple[str, str, str]] = Counter()
    failed: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        for check in row.checks:
            if check["outcome"] != "skipped":
                ran[row.kata, check["tier"], check["name"]] += 1
                failed[row.kata, check["tier"], check["name"]] += check["outcome"] not in HARMLESS
    hardest = sorted(
        (key for key in failed if failed[key]), key=lambda key: (-failed[key] / ran[key], -failed[key], key)
    )
    return [(*key, failed[key], ran[key]) for key in hardest[:MOST]]
