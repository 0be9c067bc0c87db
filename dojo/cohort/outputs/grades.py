"""A class as a table: what came of each kata for each student, what it earns, and why it failed, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import Any

from dojo.cohort.course.deadlines import Late
from dojo.cohort.course.decisions import Decision
from dojo.cohort.course.rubric import TIERS, Rubric
from dojo.cohort.course.settings import Rules
from dojo.cohort.records import Problem, Result, fails_core
from dojo.verdict.screen.text import readable
from dojo.verdict.types import HARMLESS, RIGHT, Outcome, state_in

SHOWN = ("kata", "attempt", "message", "device", "torch", "seed", "seconds")  # of a verdict, whatever is held back
SAID = re.compile(r"^[\w.]*(Error|Exception|Interrupt|Exit)\b.*", re.MULTILINE)


class Stand(Enum):
    """How far an attempt got: a word, and the letters of the tiers that hold; from the best to the worst."""

    PASSED = "passed", "CRF"
    NOT_FAST = "right, not fast", "CR·"
    CORE = "right, not robust", "C··"
    WRONG = "wrong", "···"
    BROKEN = "broken", "err"
    EMPTY = "not started", "stub"
    DECIDED = "decided", "="
    MISSING = "missing", "–"
    PERSON = "for a person", "?"

    def __init__(self, word: str, letters: str) -> None:
        self.word, self.letters = word, letters


SOLVED = (Stand.PASSED, Stand.NOT_FAST, Stand.CORE)


@dataclass(frozen=True)
class Row:
    """One student and one kata."""

    student: str
    kata: str
    result: Result | None = None  # none of a kata that the student handed in nothing for
    problem: str = ""  # why nothing could be graded, where that is known
    late: Late | None = None
    decision: Decision | None = None  # of a person, which stands above the verdict

    @property
    def why_a_person(self) -> str:
        """Why somebody must look at it, and has not decided yet."""
        return "" if self.decision else self.doubt

    @cached_property
    def doubt(self) -> str:
        """Why somebody must look at it; then it counts for nobody and against nobody.

        No doubt stands above what is proven: an attempt that fails a check of core has failed.
        """
        if self.result is None:
            return ""
        checks = self.result.verdict.get("checks", [])
        if fails_core(checks):
            return ""
        if not self.result.for_a_person and any(check["outcome"] == Outcome.GRADER_ERROR for check in checks):
            return "the grader itself failed: no fault of the attempt"
        word = self.result.verdict["verdict"]
        judged = word in ("passed", "broken", "empty") or any(check["outcome"] not in HARMLESS for check in checks)
        return self.result.for_a_person or ("" if judged else "nothing was judged")

    @cached_property
    def stand(self) -> Stand:
        if self.decision and (self.result is None or self.doubt):
            return Stand.DECIDED
        if self.result is None:
            return Stand.MISSING
        if self.doubt:
            return Stand.PERSON
        word, tiers = self.result.verdict["verdict"], self.result.tiers
        if word in ("broken", "empty", "passed"):
            return Stand[word.upper()]
        if word != "failed" or tiers.get("core", "passed") != "passed":
            return Stand.WRONG
        return Stand.CORE if tiers.get("robust", "passed") != "passed" else Stand.NOT_FAST

    @property
    def verdict(self) -> str:
        """The verdict in a word: `missing` where there is no file, `for a person` where there is no verdict."""
        if self.stand in (Stand.MISSING, Stand.PERSON, Stand.DECIDED) or self.result is None:
            return self.stand.word
        return state_in(self.result.verdict)

    @property
    def checks(self) -> list[dict[str, Any]]:
        """The checks that ran and that count."""
        return [] if self.result is None or self.doubt else self.result.verdict.get("checks", [])

    @cached_property
    def causes(self) -> list[dict[str, Any]]:
        """The failed checks that tell why, core before robust before fast."""
        telling = [c for c in self.checks if c["outcome"] not in HARMLESS and c.get("cause") in (None, c["name"])]
        return sorted(telling, key=lambda check: TIERS.index(check["tier"]))

    @property
    def first_cause(self) -> str:
        """Why the attempt does not pass, in words."""
        if self.result is None:
            return self.problem
        if self.doubt:
            return self.doubt
        if self.stand is Stand.BROKEN:
            return in_a_line(self.result.verdict.get("message", ""))
        return reason(self.causes[0]) if self.causes else ""

    def earned(self, rubric: Rubric) -> dict[str, float] | None:
        """What its verdict earns by tier, less what being late costs; None where there is no verdict to count."""
        if self.result is None:
            return rubric.earned(self.kata, "missing", {})
        if self.doubt:
            return None
        left = 1.0 - (self.late.lost if self.late else 0.0)
        earned = rubric.earned(self.kata, self.result.verdict["verdict"], self.result.tiers)
        return {tier: points * left for tier, points in earned.items()}

    def points(self, rubric: Rubric) -> float | None:
        """What it counts: what a person has decided, or else what it earns; None where somebody must look first."""
        if self.decision:
            return self.decision.points
        earned = self.earned(rubric)
        return None if earned is None else sum(earned.values())

    def notes(self) -> list[str]:
        """What stands beside the verdict, in sentences for whom it concerns."""
        late = [f"This is {self.late.text}."] if self.late else []
        decided = f"A person has given {short(self.decision.points)} points: " if self.decision else ""
        return late + ([decided + self.decision.reason] if self.decision else [])

    def seen(self, tiers: Sequence[str]) -> Row:
        """The same as far as it is shown: the checks of these tiers, and the verdict that they come to."""
        if self.result is None or set(tiers) >= set(TIERS):
            return self
        whole = self.result.verdict
        checks = [check for check in whole.get("checks", []) if check["tier"] in tiers]
        shown = {check["name"] for check in checks}
        checks = [check | {"cause": check.get("cause") if check.get("cause") in shown else None} for check in checks]
        word, bad = whole["verdict"], any(check["outcome"] not in HARMLESS for check in checks)
        if word in ("passed", "failed"):
            word = "failed" if bad else "passed"
        kept = {key: whole[key] for key in SHOWN if key in whole}
        came = {tier: counts for tier, counts in whole.get("tiers", {}).items() if tier in tiers}
        verdict = kept | {"verdict": word, "checks": checks, "tiers": came}
        if word == "passed":  # as far as is shown
            verdict["standing"] = RIGHT
        return replace(self, result=replace(self.result, verdict=verdict, for_a_person=self.doubt))


def in_a_line(message: str) -> str:
    """The first line of a message, and what Python said of a file that it could not read."""
    first = message.strip().partition("\n")[0]
    reason = SAID.search(message.partition("\n")[2])
    return f"{first}: {reason[0]}" if reason and first.startswith("this is not valid") else first


def reason(check: dict[str, Any]) -> str:
    """Why a check failed, without what differs between two who made the same mistake."""
    if check.get("diagnosis"):
        return check["diagnosis"]
    name = readable(check["name"], check["outcome"] == Outcome.WRONG)
    first = check["message"].partition("\n")[0]
    if check["outcome"] == Outcome.WRONG or not first:
        return name if check["outcome"] == Outcome.WRONG else f"{name}: {check['outcome']}"
    return f"{name}: {check['outcome']}, {first}"


@dataclass
class Class:
    """Everybody on the roster or who handed something in, and every kata that somebody did.

    What a group has handed in is each member's.
    """

    results: Sequence[Result]
    problems: Sequence[Problem]
    rules: Rules = field(default_factory=Rules)
    katas: Sequence[str] = ()  # that are listed though nobody did them
    students: Sequence[str] = ()  # the only ones that there are, if any are named
    rows: dict[tuple[str, str], Row] = field(init=False)

    def __post_init__(self) -> None:
        roster = self.rules.course.roster
        self.results = [
            replace(result, submitted=replace(result.submitted, student=name))
            for result in self.results
            for name in roster.members_of(result.submitted.student)
        ]
        self.problems = [
            replace(each, student=name) for each in self.problems for name in roster.members_of(each.student)
        ]
        if not self.students:
            names = {result.submitted.student for result in self.results} | {each.student for each in self.problems}
            names |= roster.by_name.keys()
            self.students = sorted(names - {""}, key=lambda name: (name.casefold(), name))
        done, decided = {result.submitted.kata for result in self.results}, {kata for _, kata in self.rules.decisions}
        self.katas = sorted(done | decided | {*self.katas})
        whys = {(each.student, PurePath(each.path).stem): each.why for each in reversed(self.problems)}
        decisions = self.rules.decisions
        self.rows = {
            (name, kata): Row(name, kata, None, whys.get((name, kata), ""), None, decisions.get((name, kata)))
            for name in self.students
            for kata in self.katas
        }
        for row in sorted(self.all_rows(), key=lambda row: list(Stand).index(row.stand), reverse=True):
            self.rows[row.student, row.kata] = row  # of two attempts of one student at one kata the better one counts

    def all_rows(self) -> Iterator[Row]:
        """A row for each submission, in the order in which they came."""
        for result in self.results:
            key = (result.submitted.student, result.submitted.kata)
            yield Row(*key, result, "", self.rules.late.get(key), self.rules.decisions.get(key))

    def only(self, student: str, results: Iterable[Result]) -> Class:
        """The same class as far as this student goes, whose results these are."""
        own = [replace(result, submitted=replace(result.submitted, student=student)) for result in results]
        problems = [each for each in self.problems if each.student == student]
        return Class(own, problems, self.rules, self.katas, [student])

    def rows_of(self, student: str) -> list[Row]:
        """A student's rows, a kata each."""
        return [self.rows[student, kata] for kata in self.katas]

    @property
    def rubric(self) -> Rubric | None:
        return self.rules.course.rubric

    def shown(self, student: str) -> list[Row]:
        """A student's rows as the student sees them."""
        return [row.seen(self.rules.course.visible) for row in self.rows_of(student)]

    @property
    def held_back(self) -> tuple[str, ...]:
        """The tiers that students do not see."""
        return tuple(tier for tier in TIERS if tier not in self.rules.course.visible)

    def missing(self) -> list[Row]:
        return [row for row in self.rows.values() if row.result is None]

    def for_a_person(self) -> list[Row]:
        return [row for row in self.rows.values() if row.why_a_person]

    def points(self, student: str) -> tuple[float, float]:
        """What a student has, and could have; what a person must look at is in neither."""
        assert self.rubric is not None
        counted = [(row.kata, row.points(self.rubric)) for row in self.rows_of(student)]
        total = sum(points for _, points in counted if points is not None)
        most = sum(self.rubric.most(kata) for kata, points in counted if points is not None)
        return self.rubric.bounded(total), min(most, self.rubric.highest)


def short(points: float) -> str:
    """Points without zeros that say nothing."""
    return f"{round(points, 2):g}" if points < 1e6 else f"{points:.0f}"


def count(number: int, what: str) -> str:
    """`1 student`, `2 students`."""
    return f"{number} {what}{'s' * (number != 1)}"
