"""What a cohort is made of: what was handed in, what could not be read, and what came of it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from dojo.content.catalog import Kata
from dojo.verdict.types import HARMLESS, Outcome, Tier


@dataclass(frozen=True)
class Arrival:
    """When something was handed in, as far as its layout tells."""

    at: datetime | None = None  # without a zone it is in the course's own
    late: bool = False  # the platform says so, and not by how much


UNTOLD = Arrival()


@dataclass(frozen=True, order=True)
class Submitted:
    """One attempt of one student at one kata."""

    student: str  # as the teacher calls them; one name is one student
    kata: str
    path: str  # where it lay, as a teacher finds it again: `ada/attention/gqa.py`, `class.zip: ada/gqa.ipynb`
    source: str = field(repr=False)  # the attempt's text; of a notebook its code cells
    # the student's other attempts that this one may import, as `positions/rope` to text
    others: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    arrival: Arrival = field(default=UNTOLD, repr=False, compare=False)

    @property
    def digest(self) -> str:
        """What tells two contents apart, as hexadecimal digits."""
        parts = [self.source, *(part for item in sorted(self.others.items()) for part in item)]
        return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def knowing_each_other(submitted: Iterable[Submitted], katas: Mapping[str, Kata]) -> Iterator[Submitted]:
    """The same, each with those attempts of its student that it imports, and that these import."""
    by_student: dict[str, dict[str, Submitted]] = {}
    for each in submitted:
        by_student.setdefault(each.student, {})[each.kata] = each
    for own in by_student.values():
        for each in own.values():
            wanted, found = [each], dict[str, Submitted]()
            while wanted:
                one = wanted.pop()
                lines = [line for line in one.source.splitlines() if re.match(r"\s*(from|import)\b", line)]
                words = set(re.findall(r"\w+", " ".join(lines))) & own.keys() - {each.kata} - found.keys()
                found |= {name: own[name] for name in words}
                wanted += [own[name] for name in words]
            others = {f"{katas[name].track}/{name}": other.source for name, other in found.items()}
            yield replace(each, others=others)


def fails_core(checks: Iterable[Mapping[str, Any]]) -> bool:
    """Whether an attempt has failed beyond doubt: a check of core, as JSON has it, by no fault of grader or machine."""
    return any(
        check["tier"] == Tier.CORE
        and check["outcome"] not in HARMLESS
        and check["outcome"] != Outcome.GRADER_ERROR
        and not check.get("starved")
        for check in checks
    )


@dataclass(frozen=True, order=True)
class Problem:
    """Something handed in that cannot be graded; it stops nothing."""

    student: str  # nothing where it is nobody's
    path: str
    why: str  # a sentence that says what is wrong and what to do


@dataclass(frozen=True)
class Result:
    """What came of an attempt."""

    submitted: Submitted
    verdict: dict[str, Any]  # as `Verdict.to_json(pictures=True)` writes it
    for_a_person: str = ""  # why somebody must look at it: then it counts for nobody and against nobody
    gradings: int = 1  # it took
    seconds: float = 0.0  # of the last one, by the clock
    prints: bytes = field(default=b"", repr=False, compare=False)  # its fingerprints, by which copies are found

    @property
    def tiers(self) -> dict[str, str]:
        """Per tier `passed` or `failed`, none for an attempt that cannot be imported."""
        tiers: dict[str, str] = self.verdict.get("tiers", {})
        return tiers


class Brief:
    """Makes results small: what tables and the page about a class tell, and equal parts of many are one object."""

    CHECK = ("name", "tier", "outcome", "diagnosis", "cause", "starved")
    VERDICT = ("verdict", "message", "seconds", "mentions")

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], Any] = {}

    def shorten(self, verdict: dict[str, Any]) -> dict[str, Any]:
        """A verdict without pictures, and of each check's message the first line."""
        found = {key: verdict[key] for key in self.VERDICT if key in verdict}
        found["tiers"] = self._one(tuple(verdict.get("tiers", {}).items()))
        return found | {"checks": [self._check(check) for check in verdict.get("checks", [])]}

    def _check(self, check: dict[str, Any]) -> dict[str, Any]:
        kept = tuple((key, check[key]) for key in self.CHECK if key in check)
        return self._one((*kept, ("message", check["message"].partition("\n")[0])))

    def _one(self, items: tuple[Any, ...]) -> dict[str, Any]:
        known: dict[str, Any] = self._known.setdefault(items, dict(items))
        return known
