"""Where the user stands, for the screens that show all katas: how each stands, what is next and why, and the plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from dojo.content import catalog
from dojo.content.catalog import Kata, Trouble
from dojo.practice import database, progress
from dojo.practice.database import Attempt, Unreadable
from dojo.practice.schedule import plans
from dojo.practice.schedule.plans import Due, Plan
from dojo.practice.schedule.standing import Standing


@dataclass
class Practice:
    """The katas in the order of learning, how they stand, what is proposed, the plan, and what could not be read."""

    katas: list[Kata]
    standings: dict[str, Standing]
    proposed: list[Due]
    plan: Plan | None
    troubles: list[str] = field(default_factory=list)

    @classmethod
    def now(cls) -> Practice:
        """As it stands now. Raises Trouble."""
        return cls._of(plans.kept_plan())

    @classmethod
    def as_far_as_readable(cls) -> Practice:
        """As it stands now; a history or a plan that cannot be read is told in `troubles`. Raises Trouble of katas."""
        troubles, plan = list[str](), None
        try:
            plan = plans.kept_plan()
        except Trouble as trouble:
            troubles.append(str(trouble))
        try:
            practice = cls._of(plan)
        except Unreadable as unreadable:
            troubles.insert(0, progress.unknown(unreadable))
            practice = cls._of(None, [])
        practice.troubles = troubles
        return practice

    @classmethod
    def _of(cls, plan: Plan | None, attempts: Sequence[Attempt] | None = None) -> Practice:
        katas = catalog.katas()
        standings = progress.standings(katas.values(), attempts)
        return cls(list(katas.values()), standings, plans.propose(katas, standings, plan=plan), plan)

    @property
    def tally(self) -> str:
        """How many katas are solved, when the interview is, and how much of the plan is done."""
        parts = [progress.tally(self.standings.values())]
        if self.plan and (left := (self.plan.date - date.today()).days) >= 0:
            parts.append("the interview is " + {0: "today", 1: "tomorrow"}.get(left, f"in {left} days"))
            parts.append(f"plan: {sum(self.plan.done(self.standings))} of {len(self.plan.tasks)}")
        return " · ".join(parts)

    @property
    def tracks(self) -> dict[str, list[Kata]]:
        """The katas by track."""
        found = {track: [k for k in self.katas if k.track == track] for track in catalog.TRACKS}
        return {track: own for track, own in found.items() if own}

    def solved(self, track: str) -> int:
        """How many katas of a track are solved."""
        return sum(self.standings[kata.name].solved for kata in self.tracks[track])

    def when(self, kata: Kata) -> str:
        """For when a kata is planned, or that it is due; nothing else that is proposed is urgent."""
        why = next((due.reason for due in self.proposed if due.kata.name == kata.name), "")
        return why.removeprefix("planned for ") if why.startswith("planned") else "due" if "likely" in why else ""


def stamp() -> tuple[tuple[int, int] | None, ...]:
    """What changes whenever a grading is recorded or a plan made, by this process or another; cheap to ask for."""
    history = database.place()
    return tuple(map(_stamp, (history, history.with_name(f"{history.name}-wal"), plans.plan_file())))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        state = path.stat()
    except OSError:
        return None
    return state.st_mtime_ns, state.st_size
