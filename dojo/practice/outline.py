"""The plan as its user makes it and reads it: by days, with what is done, and in the words of terminal and page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime

from dojo.content import catalog
from dojo.content.catalog import Kata
from dojo.practice import progress
from dojo.practice.schedule import plans
from dojo.practice.schedule.plans import Plan, Task

NAMED = 8  # of what a plan has no room for


def make(day: date, hours: float, target: str, named: str, now: datetime) -> None:
    """Make and keep a plan for somebody who knows these katas and tracks, and what placements have found.

    Raises Trouble, and UnknownKata of a name.
    """
    from dojo.practice.interview import placement
    from dojo.practice.schedule import making

    found, words = catalog.katas(), [word for word in named.replace(",", " ").split() if word]
    known = {kata.name for kata in catalog.select(words)} if words else set()
    standings = progress.standings(found.values())
    plans.keep_plan(making.make_plan(found, standings, day, hours, now, target, known | placement.known()))


@dataclass(frozen=True)
class Outline:
    """A plan by days, each task with whether it is done."""

    kept: Plan
    today: date
    days: dict[date, list[tuple[Task, bool]]]
    katas: dict[str, Kata]

    @classmethod
    def of(cls, kept: Plan, today: date) -> Outline:
        """As it stands today. Raises Trouble."""
        katas = catalog.katas()
        done, days = kept.done(progress.standings(katas.values())), dict[date, list[tuple[Task, bool]]]()
        for task, ready in zip(kept.tasks, done, strict=True):
            days.setdefault(task.day, []).append((task, ready))
        return cls(kept, today, days, katas)

    @property
    def left(self) -> int:
        """Days until the interview; below 0 when it is over."""
        return (self.kept.date - self.today).days

    @property
    def head(self) -> str:
        """When the interview is, and how much is planned."""
        day = f"{self.kept.date:%A} {self.kept.date.day} {self.kept.date:%B %Y}"
        when = {0: "today", 1: "tomorrow"}.get(self.left, f"in {self.left} days" if self.left > 0 else "over")
        target = "" if self.kept.target == "all" else f" for {self.kept.target}"
        return f"The interview{target} on {day} is {when}. Planned: {time_of(self.kept.tasks)}."

    @property
    def tally(self) -> str:
        """How many tasks are done, in words."""
        return f"{self.done} of {self.count} done."

    @property
    def done(self) -> int:
        """How many tasks are done."""
        return sum(ready for _, ready in self._tasks)

    @property
    def count(self) -> int:
        """How many tasks there are."""
        return len(self._tasks)

    @property
    def late(self) -> bool:
        """Whether something open is of a day that has passed, and there are days left for it."""
        return self.left >= 0 and any(task.day < self.today for task in self._open)

    @property
    def hours_left(self) -> int:
        """The hours that what is open takes."""
        return math.ceil(sum(task.minutes for task in self._open) / 60)

    @property
    def notes(self) -> list[str]:
        """What is only read, and what found no room, a sentence each."""
        notes = []
        if read := {task.kata for task in self.kept.tasks if task.how == "read"}:
            more = time_of([kata for name, kata in self.katas.items() if name in read])
            notes.append(f"{len(read)} of the most asked are only read: writing them takes {more} more.")
        if out := self.kept.left_out:
            rest = f" and {len(out) - NAMED} more" if len(out) > NAMED else ""
            names = f"{', '.join(task.title for task in out[:NAMED])}{rest}"
            notes.append(f"No room in {self.kept.hours:g} h for {names}: that takes {time_of(out)}.")
        return notes

    @property
    def _tasks(self) -> list[tuple[Task, bool]]:
        return [each for tasks in self.days.values() for each in tasks]

    @property
    def _open(self) -> list[Task]:
        return [task for task, ready in self._tasks if not ready]


def time_of(timed: Iterable[Task | Kata]) -> str:
    """How long all of these take together, as it is said: 45 min, 6 h, 1 h 30 min."""
    hours, rest = divmod(sum(each.minutes for each in timed), 60)
    return " ".join([*([f"{hours} h"] if hours else []), *([f"{rest} min"] if rest or not hours else [])])
