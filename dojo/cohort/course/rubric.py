"""Grades by a rubric: what each tier of each kata is worth."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from dojo.cohort.course.reading import Reader
from dojo.content.catalog import Trouble
from dojo.verdict.types import Tier

TIERS = tuple(tier.value for tier in Tier)
EXAMPLE = "core = 6, robust = 3, fast = 1"
KEYS = ("core_first", "default", "katas", "bounds")  # of a course's file


@dataclass(frozen=True)
class Rubric:
    """Points by tier and kata; a tier that nothing names gives none."""

    default: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(TIERS, 1.0))
    katas: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    core_first: bool = True  # what is wrong is neither robust nor fast, whatever those checks say
    lowest: float = 0.0  # what a student gets at least, all katas together
    highest: float = math.inf  # and at most

    def of_tiers(self, kata: str) -> dict[str, float]:
        """What each tier of a kata is worth."""
        named = self.katas.get(kata, {})
        return {tier: named.get(tier, self.default.get(tier, 0.0)) for tier in TIERS}

    def most(self, kata: str) -> float:
        """What a kata is worth."""
        return sum(self.of_tiers(kata).values())

    def earned(self, kata: str, verdict: str, tiers: Mapping[str, str]) -> dict[str, float]:
        """What a verdict earns by tier. A tier that the kata has no checks of is given to whoever was graded."""
        if verdict != "passed" and not tiers:
            return dict.fromkeys(TIERS, 0.0)
        lost = {tier for tier, came in tiers.items() if came != "passed"}
        if self.core_first and "core" in lost:
            lost = set(TIERS)
        return {tier: 0.0 if tier in lost else worth for tier, worth in self.of_tiers(kata).items()}

    def bounded(self, total: float) -> float:
        """A student's sum within the bounds."""
        return min(max(total, self.lowest), self.highest)


def of_table(reader: Reader, table: Mapping[str, Any], graded: Iterable[str], known: Collection[str]) -> Rubric:
    """The rubric in a course's file, which must say what each of the `graded` katas is worth. Raises Trouble."""
    default = _points(reader, table.get("default", {}), "default")
    katas = reader.table(table.get("katas", {}), "katas")
    reader.names(katas, "katas", known, "a kata")
    points = {name: _points(reader, each, f"katas.{name}") for name, each in katas.items()}
    bounds = reader.table(table.get("bounds", {}), "bounds")
    reader.names(bounds, "bounds", ("lowest", "highest"), "a key of [bounds]")
    lowest = reader.number(bounds.get("lowest", 0), "bounds.lowest")
    highest = reader.number(bounds.get("highest", math.inf), "bounds.highest")
    if lowest > highest:
        raise Trouble(f"{reader.path}: bounds.lowest is {lowest:g} and bounds.highest {highest:g}: exchange them")
    first = table.get("core_first", True)
    if not isinstance(first, bool):
        raise Trouble(f"{reader.path}: core_first is {first!r}: write true (no points without core) or false")
    if unpaid := [kata for kata in graded if kata not in points and not default]:
        message = f"{reader.path} says nothing of {', '.join(unpaid)}"
        raise Trouble(f"{message}: add a table [default] or [katas.{unpaid[0]}], with {EXAMPLE}")
    return Rubric(default, points, first, lowest, highest)


def _points(reader: Reader, value: Any, key: str) -> dict[str, float]:
    tiers = reader.table(value, key)
    reader.names(tiers, key, TIERS, "a tier")
    return {tier: reader.number(worth, f"{key}.{tier}") for tier, worth in tiers.items()}
