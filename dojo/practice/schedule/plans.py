"""What to practise now, and the plan by days until the interview, which is kept: its user has set out to do it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.content import files
from dojo.content.catalog import Kata, Trouble, typed
from dojo.practice import database
from dojo.practice.schedule import drills
from dojo.practice.schedule.repetition import sittings

if TYPE_CHECKING:
    from dojo.practice.schedule.standing import Standing

RATED = {
    "Again": "solved after the solution was shown",
    "Hard": "solved with hints",
    "Good": "solved after par",
    "Easy": "solved",
}
COMMANDS = {  # what is done of a plan by which command; without a word a kata is written as one likes
    "drill": "drill {}",
    "hunt": "hunt {}",
    "mock": "mock {}",
    "ladder": "mock {}",
    "read": "reveal {} --spoil",
}
COPIES = 20  # of plans that were replaced


@dataclass(frozen=True)
class Due:
    """A kata to practise, and why; `recall` is how likely it is still known, None for a new one."""

    kata: Kata
    reason: str
    recall: float | None
    minutes: int
    how: str = ""  # a word of COMMANDS; else as one likes
    beside: tuple[str, ...] = ()  # further katas of the same mock

    @property
    def steps(self) -> str:
        """The commands that begin it, in a sentence."""
        if self.how:
            return f"`{typed(COMMANDS[self.how].format(' '.join((self.kata.name, *self.beside))))}` begins it."
        name = self.kata.name
        return f"`{typed(f'mock {name}')}` for the clock, `{typed(f'grade {name}')}` without it."


def propose(
    katas: Mapping[str, Kata], standings: Mapping[str, Standing], now: datetime | None = None, plan: Plan | None = None
) -> list[Due]:
    """Katas to practise, the most urgent first: planned, due, and new ones whose groundwork has been solved."""
    now = now or datetime.now(UTC)
    planned = _planned(katas, standings, now.astimezone().date(), plan)
    due, new = [], []
    for name, kata in katas.items():
        standing = standings[name]
        known, last = standing.memory, standing.last
        how, minutes = ("drill", drills.minutes(kata)) if drills.fits(kata) else ("", kata.minutes)
        if known is None or last is None:
            if all(standings[base].solved for base in kata.builds_on if base in standings):
                base = f"builds on {', '.join(kata.builds_on)}" if kata.builds_on else "needs no other"
                new.append(Due(kata, f"new; {base}", None, kata.minutes))
        elif not last.solved:
            due.append(Due(kata, f"{last.word} {_ago(last.at, now)}", 0.0, kata.minutes))
        elif known.due <= now:
            reason = f"{RATED[known.rating]} {_ago(known.at, now)}, {known.recall:.0%} likely still known"
            due.append(Due(kata, reason, known.recall, minutes, how))
    due.sort(key=lambda each: each.recall or 0.0)
    named = {each.kata.name for each in planned}
    return planned + [each for each in due + new if each.kata.name not in named]


def _ago(at: float, now: datetime) -> str:
    days = (now - datetime.fromtimestamp(at, UTC)).days
    return "today" if days < 1 else "yesterday" if days == 1 else f"{days} days ago"


def _planned(katas: Mapping[str, Kata], standings: Mapping[str, Standing], today: date, plan: Plan | None) -> list[Due]:
    """What is open of a plan whose interview is still to come, each kata once, the earliest day first."""
    if plan is None or plan.date < today:
        return []
    found: dict[str, Due] = {}
    for task, done in zip(plan.tasks, plan.done(standings), strict=True):
        if not done and task.kata in katas:
            known = standings[task.kata].memory
            beside = tuple(name for name in task.beside if name in katas)
            what = f"{task.how or 'again'}{' with ' * bool(beside)}{', '.join(beside)}"
            reason = f"planned for {day_of(task.day, today)}{f', {what}' if task.how or task.again else ''}"
            recall = known.recall if known else None
            found.setdefault(task.kata, Due(katas[task.kata], reason, recall, task.minutes, task.how, beside))
    return list(found.values())


@dataclass(frozen=True)
class Task:
    """A kata on a day of a plan; `again` is for one that was met before, to keep it in mind."""

    day: date
    kata: str
    minutes: int
    again: bool = False
    how: str = ""  # a word of COMMANDS; else as one likes
    beside: tuple[str, ...] = ()  # further katas of the same mock

    @property
    def title(self) -> str:
        """What is to be done, as a day of the plan says it."""
        names = " + ".join((self.kata, *self.beside))
        return f"{self.how} {names}" if self.how else f"{names}{' again' * self.again}"


@dataclass(frozen=True)
class Plan:
    """Which kata on which day until the interview, made at a time (seconds since 1970); and what found no room."""

    date: date
    hours: float
    made: float
    tasks: tuple[Task, ...]
    left_out: tuple[Task, ...]
    target: str = "all"
    known: tuple[str, ...] = ()

    def done(self, standings: Mapping[str, Standing]) -> list[bool]:
        """Of each task, whether since the plan was made it was done as often as the plan has had it by then.

        A kata is done by being solved, a drill, mock or hunt by being held, reading by a look at the solution.
        """
        asked, found = Counter[tuple[str, str]](), []
        read = Counter(each.kata for each in _looks(self.made)) if any(t.how == "read" for t in self.tasks) else {}
        for task in self.tasks:
            kind = "mock" if task.how == "ladder" else task.how
            enough = []
            for name in (task.kata, *task.beside):
                asked[name, kind] += 1
                held = read.get(name, 0) if kind == "read" else self._count(kind, standings.get(name))
                enough.append(held >= asked[name, kind])
            found.append(all(enough))
        return found

    def _count(self, kind: str, standing: Standing | None) -> int:
        if standing is None:
            return 0
        if kind:
            return sum(a.at >= self.made and a.kind == kind for a in (*standing.gradings, *standing.hunts))
        return sum(s.end.solved and s.end.at >= self.made for s in sittings(standing.gradings))


def _looks(since: float) -> Sequence[database.Help]:
    """The looks at solutions since then."""
    return [each for each in database.helps() if each.kind == database.SOLUTION and each.at >= since]


def day_of(day: date, today: date) -> str:
    """A day as it is said: `today`, `tomorrow`, or `Mon 23 Nov`."""
    return {0: "today", 1: "tomorrow"}.get((day - today).days, f"{day:%a} {day.day} {day:%b}")


def plan_file() -> Path:
    """Where the plan is kept: beside the history."""
    return database.home() / "plan.json"


def keep_plan(plan: Plan) -> None:
    """Remember the plan instead of the one before, of which a copy is kept. Raises Trouble."""
    try:
        _keep_copy()
        files.write_atomic(plan_file(), json.dumps(asdict(plan), default=str, indent=1) + "\n")
    except OSError as error:
        raise Trouble(f"{plan_file()}: {error.strerror}; DOJO_HOME names another folder") from None


def forget_plan() -> Path | None:
    """Forget the plan; returns the copy that is kept of it, None where there was none. Raises Trouble."""
    try:
        copy = _keep_copy()
        plan_file().unlink(missing_ok=True)
    except OSError as error:
        raise Trouble(f"{plan_file()}: {error.strerror}; DOJO_HOME names another folder") from None
    return copy


def _keep_copy() -> Path | None:
    if not plan_file().exists():
        return None
    return files.keep(database.home() / "kept", plan_file(), plan_file().read_bytes(), at_most=COPIES)


def kept_plan() -> Plan | None:
    """The plan that was made last, if it was not forgotten; older ones are read too.

    Raises Trouble when it cannot be read.
    """
    try:
        found = json.loads(plan_file().read_text("utf-8"))
        found["date"] = date.fromisoformat(found["date"])
        for name in ("tasks", "left_out"):
            found[name] = tuple(map(_task, found[name]))
        return Plan(**found | {"known": tuple(found.get("known", ()))})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Trouble(
            f"{plan_file()} cannot be read: {error}. `{typed('plan --clear')}` removes it and keeps a copy."
        ) from None


def _task(found: dict) -> Task:
    """A task as it was written down. Raises ValueError, TypeError or KeyError."""
    task = Task(**found | {"day": date.fromisoformat(found["day"]), "beside": tuple(found.get("beside", ()))})
    if task.how not in ("", *COMMANDS):
        raise ValueError(f"a task is '{task.how}', and this dojo knows {', '.join(COMMANDS)}")
    return task
