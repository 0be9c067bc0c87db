"""Grades by a rubric: a TOML file that says what each tier of each kata is worth."""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dojo.content import catalog
from dojo.content.catalog import Trouble
from dojo.verdict.types import Tier

TIERS = tuple(tier.value for tier in Tier)
EXAMPLE = "core = 6, robust = 3, fast = 1"


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


def read(path: Path, graded: Iterable[str] = (), known: Collection[str] | None = None) -> Rubric:
    """The rubric in a file, which must say what each of the `graded` katas is worth.

    Raises Trouble with the file, the key and what to write instead.
    """
    try:
        table = tomllib.loads(path.read_text("utf-8-sig"))
    except OSError as error:
        raise Trouble(
            f"{path} cannot be read ({error.strerror}): name a rubric, a TOML file with a table [default]"
        ) from None
    except UnicodeDecodeError as error:
        raise Trouble(f"{path} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise Trouble(
            f"{path} is no TOML: {error}. A rubric looks like this: [default], and below it {EXAMPLE}"
        ) from None
    reader = _Reader(path)
    reader.names(table, "", ("core_first", "default", "katas", "bounds"))
    default = reader.points(table.get("default", {}), "default")
    known = catalog.katas() if known is None else known
    katas = reader.table(table.get("katas", {}), "katas")
    reader.names(katas, "katas", known, "a kata")
    points = {name: reader.points(each, f"katas.{name}") for name, each in katas.items()}
    bounds = reader.table(table.get("bounds", {}), "bounds")
    reader.names(bounds, "bounds", ("lowest", "highest"))
    lowest, highest = (
        reader.number(bounds.get(key, other), f"bounds.{key}") for key, other in (("lowest", 0), ("highest", math.inf))
    )
    if lowest > highest:
        raise Trouble(f"{path}: bounds.lowest is {lowest:g} and bounds.highest {highest:g}: exchange them")
    first = table.get("core_first", True)
    if not isinstance(first, bool):
        raise Trouble(f"{path}: core_first is {first!r}: write true (no points without core) or false")
    if unpaid := [kata for kata in graded if kata not in points and not default]:
        raise Trouble(
            f"{path} says nothing of {', '.join(unpaid)}: add a table [default] or [katas.{unpaid[0]}], with {EXAMPLE}"
        )
    return Rubric(default, points, first, lowest, highest)


@dataclass(frozen=True)
class _Reader:
    """Holds what a TOML file says against what a rubric may say."""

    path: Path

    def table(self, value: Any, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Trouble(f"{self.path}: {key} is {value!r} and must be a table: write [{key}] on a line of its own")
        return value

    def names(
        self, table: Mapping[str, Any], key: str, known: Collection[str], what: str = "a key of a rubric"
    ) -> None:
        """Refuse a name that means nothing, which may be a slip of the pen for one that does."""
        for name in table:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1, 0.5)
                advice = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
                raise Trouble(f"{self.path}: {f'{key}.{name}'.strip('.')}: '{name}' is not {what}: {advice}")

    def points(self, value: Any, key: str) -> dict[str, float]:
        tiers = self.table(value, key)
        self.names(tiers, key, TIERS, "a tier")
        return {tier: self.number(worth, f"{key}.{tier}") for tier, worth in tiers.items()}

    def number(self, value: Any, key: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
            raise Trouble(
                f"{self.path}: {key} is {value!r}: write a number, 0 or more, as in {key.rpartition('.')[2]} = 3"
            )
        return float(value)
