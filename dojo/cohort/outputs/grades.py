"""A class as a table: what came of each kata for each student, what it earns, and why it failed, in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import PurePath
from typing import Any

from dojo.cohort.outputs.rubric import TIERS, Rubric
from dojo.cohort.records import Problem, Result, fails_core
from dojo.verdict.screen.text import readable
from dojo.verdict.types import Outcome, state_of

HARMLESS = {outcome.value for outcome in Outcome if outcome.harmless}
SAID = re.compile(r"^[\w.]*(Error|Exception|Interrupt|Exit)\b.*", re.MULTILINE)


class Stand(Enum):
    """How far an attempt got: a word, and the letters of the tiers that hold; from the best to the worst."""

    PASSED = "passed", "CRF"
    NOT_FAST = "core and robust", "CR·"
    CORE = "core", "C··"
    WRONG = "not core", "···"
    BROKEN = "broken", "err"
    EMPTY = "not started", "stub"
    MISSING = "missing", "–"
    PERSON = "for a person", "?"

    @property
    def word(self) -> str:
        return self.value[0]

    @property
    def letters(self) -> str:
        return self.value[1]


@dataclass(frozen=True)
class Row:
    """One student and one kata."""

    student: str
    kata: str
    result: Result | None = None  # none of a kata that the student handed in nothing for
    problem: str = ""  # why nothing could be graded, where that is known

    @cached_property
    def why_a_person(self) -> str:
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
        if self.result is None:
            return Stand.MISSING
        if self.why_a_person:
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
        if self.stand in (Stand.MISSING, Stand.PERSON) or self.result is None:
            return self.stand.word
        return state_of(self.result.verdict["verdict"])

    @property
    def checks(self) -> list[dict[str, Any]]:
        """The checks that ran and that count."""
        return [] if self.result is None or self.why_a_person else self.result.verdict.get("checks", [])

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
        if self.stand is Stand.PERSON:
            return self.why_a_person
        if self.stand is Stand.BROKEN:
            return in_a_line(self.result.verdict.get("message", ""))
        return told(self.causes[0]) if self.causes else ""

    def earned(self, rubric: Rubric) -> dict[str, float] | None:
        """What it earns by tier; nothing that counts where a person must look."""
        if self.result is None:
            return rubric.earned(self.kata, "missing", {})
        return (
            None if self.why_a_person else rubric.earned(self.kata, self.result.verdict["verdict"], self.result.tiers)
        )


def in_a_line(message: str) -> str:
    """The first line of a message, and what Python said of a file that it could not read."""
    first = message.strip().partition("\n")[0]
    said = SAID.search(message.partition("\n")[2])
    return f"{first}: {said[0]}" if said and first.startswith("this is not valid") else first


def told(check: dict[str, Any]) -> str:
    """Why a check failed, without what differs between two who made the same mistake."""
    if check.get("diagnosis"):
        return check["diagnosis"]
    name = readable(check["name"], check["outcome"] == Outcome.WRONG)
    said = check["message"].partition("\n")[0]
    if check["outcome"] == Outcome.WRONG or not said:
        return name if check["outcome"] == Outcome.WRONG else f"{name}: {check['outcome']}"
    return f"{name}: {check['outcome']}, {said}"


@dataclass
class Class:
    """Everybody who handed something in, and every kata that somebody did."""

    results: Sequence[Result]
    problems: Sequence[Problem]
    rubric: Rubric | None = None
    katas: list[str] = field(default_factory=list)  # those of the results, if none are named
    students: list[str] = field(init=False)
    rows: dict[tuple[str, str], Row] = field(init=False)

    def __post_init__(self) -> None:
        names = {result.submitted.student for result in self.results} | {each.student for each in self.problems}
        self.students = sorted(names - {""}, key=lambda name: (name.casefold(), name))
        self.katas = self.katas or sorted({result.submitted.kata for result in self.results})
        whys = {(each.student, PurePath(each.path).stem): each.why for each in reversed(self.problems)}
        self.rows = {
            (name, kata): Row(name, kata, None, whys.get((name, kata), ""))
            for name in self.students
            for kata in self.katas
        }
        for row in sorted(self.all_rows(), key=lambda row: list(Stand).index(row.stand), reverse=True):
            self.rows[row.student, row.kata] = row  # of two attempts of one student at one kata the better one counts

    def all_rows(self) -> Iterator[Row]:
        """A row for each submission, in the order in which they came."""
        for result in self.results:
            yield Row(result.submitted.student, result.submitted.kata, result)

    def only(self, student: str, results: Iterable[Result]) -> Class:
        """The same class as far as this student goes, whose results these are."""
        return Class([*results], [p for p in self.problems if p.student == student], self.rubric, self.katas)

    def of(self, student: str) -> list[Row]:
        """A student's rows, a kata each."""
        return [self.rows[student, kata] for kata in self.katas]

    def missing(self) -> list[Row]:
        return [row for row in self.rows.values() if row.result is None]

    def for_a_person(self) -> list[Row]:
        return [row for row in self.rows.values() if row.why_a_person]

    def points(self, student: str) -> tuple[float, float]:
        """What a student has, and could have; what a person must look at is in neither."""
        assert self.rubric is not None
        counted = [(row.kata, row.earned(self.rubric)) for row in self.of(student)]
        total = sum(sum(earned.values()) for _, earned in counted if earned is not None)
        most = sum(self.rubric.most(kata) for kata, earned in counted if earned is not None)
        return self.rubric.bounded(total), min(most, self.rubric.highest)


def short(points: float) -> str:
    """Points without zeros that say nothing."""
    return f"{round(points, 2):g}" if points < 1e6 else f"{points:.0f}"


def count(number: int, what: str) -> str:
    """`1 student`, `2 students`."""
    return f"{number} {what}{'s' * (number != 1)}"


def sentence(parts: Iterable[str]) -> str:
    """The parts that say something, one after the other."""
    return ", ".join(part for part in parts if part)
