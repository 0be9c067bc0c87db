"""What a cohort is made of: what was handed in, what could not be read, and what came of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, order=True)
class Submitted:
    """One attempt of one student at one kata."""

    student: str  # as the teacher calls them; one name is one student
    kata: str
    path: str  # where it lay, as a teacher finds it again: `ada/attention/gqa.py`, `class.zip: ada/gqa.ipynb`
    source: str = field(repr=False)  # the attempt's text; of a notebook its code cells

    @property
    def digest(self) -> str:
        """What tells two contents apart, as hexadecimal digits."""
        return hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()


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

    @property
    def tiers(self) -> dict[str, str]:
        """Per tier `passed` or `failed`, none for an attempt that cannot be imported."""
        tiers: dict[str, str] = self.verdict.get("tiers", {})
        return tiers
