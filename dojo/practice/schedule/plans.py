"""What to practise now, and a plan by days until the interview: what its user has set out to do, and so it is kept."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.content import files
from dojo.content.catalog import Kata, Trouble, typed
from dojo.practice import database
from dojo.practice.schedule.asked import most_asked_first
from dojo.practice.schedule.repetition import replayed, sittings

if TYPE_CHECKING:
    from dojo.practice.database import Attempt
    from dojo.practice.schedule.standing import Standing

RATED = {
    "Again": "solved after the solution was shown",
    "Hard": "solved with hints",
    "Good": "solved after par",
    "Easy": "solved",
}
EVERY, LAST = 3, 2  # a mock or a hunt every so many days, and before the interview nothing new for so many
DRILLS = 0.25  # of the hours, kept for mocks and hunts


@dataclass(frozen=True)
class Due:
    """A kata to practise, and why; `recall` is how likely it is still known, None for a new one."""

    kata: Kata
    reason: str
    recall: float | None


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
        if known is None or last is None:
            if all(standings[base].solved for base in kata.builds_on):
                base = f"builds on {', '.join(kata.builds_on)}" if kata.builds_on else "needs no other"
                new.append(Due(kata, f"new; {base}", None))
        elif not last.solved:
            due.append(Due(kata, f"{last.word} {_ago(last.at, now)}", 0.0))
        elif known.due <= now:
            reason = f"{RATED[known.rating]} {_ago(known.at, now)}, {known.recall:.0%} likely still known"
            due.append(Due(kata, reason, known.recall))
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
            how = f", {task.how or 'again'}" if task.again else ""
            reason = f"planned for {day_of(task.day, today)}{how}"
            found.setdefault(task.kata, Due(katas[task.kata], reason, known.recall if known else None))
    return list(found.values())


@dataclass(frozen=True)
class Task:
    """A kata on a day of a plan; `again` is for one that was met before, to keep it in mind."""

    day: date
    kata: str
    minutes: int
    again: bool = False
    how: str = ""  # mock or hunt; else as one likes

    @property
    def title(self) -> str:
        """What is to be done, as a day of the plan says it."""
        return f"{self.how} {self.kata}" if self.how else f"{self.kata}{' again' * self.again}"


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
        """Of each task, whether its kata was solved, or a mock or hunt of it held, as often since the plan was made."""
        asked, found = Counter[tuple[str, str]](), []
        for task in self.tasks:
            asked[task.kata, task.how] += 1
            count = self._count(task, standings[task.kata]) if task.kata in standings else 0
            found.append(count >= asked[task.kata, task.how])
        return found

    def _count(self, task: Task, standing: Standing) -> int:
        if task.how:
            return sum(a.at >= self.made and a.kind == task.how for a in (*standing.gradings, *standing.hunts))
        return sum(s.end.solved and s.end.at >= self.made for s in sittings(standing.gradings))


def make_plan(
    katas: Mapping[str, Kata],
    standings: Mapping[str, Standing],
    interview: date,
    hours: float,
    now: datetime,
    target: str = "all",
    known: Collection[str] = (),
) -> Plan:
    """What fits into the hours, on the days before the interview, for somebody who knows some katas already.

    What was tried and not solved comes first, then what the scheduler expects to be forgotten by the interview, then
    new katas, those that are asked most; of what is chosen, groundwork comes first. Every third day has a mock or a
    hunt, and the last two have mocks and what is due. What room is left is for a second time, at half of par.
    """
    today, room = _date(now), 60.0 * hours
    days = [today + timedelta(n) for n in range(max(1, (interview - today).days))]
    drilled = _drill_days(days)
    wanted = [kata for kata in most_asked_first(katas.values(), target) if kata.name not in known]
    begun = [k for k in wanted if (last := standings[k.name].last) and not last.solved]
    due = {k: _date(d) for k in wanted if k not in begun and (d := standings[k.name].due)}
    fading = sorted((k for k in due if due[k] < interview), key=due.__getitem__)
    new = [k for k in wanted if not standings[k.name].gradings]
    first, tasks, left_out = list[Kata](), list[Task](), list[Task]()
    kept = DRILLS * room if drilled else 0.0
    for kata in [*begun, *fading, *new]:
        task = Task(max(today, due.get(kata, today)), kata.name, _minutes(kata, kata in due), kata in due)
        if task.minutes > room - kept:
            left_out.append(task)
            continue
        room -= task.minutes
        tasks += [task] if task.again else []
        first += [] if task.again else [kata]
    tasks += _spread(_groundwork_first(first), [day for day in days if day not in drilled])
    drills = _drills([task for task in tasks if not task.again], [k for k in wanted if k in first], drilled, room)
    room -= sum(task.minutes for task in drills)
    tasks += drills
    latest = {task.kata: task.day for task in sorted(tasks, key=_day)}
    for name, from_day in latest.items():
        for day in _forgotten(katas[name], standings[name].gradings, from_day, interview, now):
            second = Task(day, name, _minutes(katas[name], True), True)
            fits = second.minutes <= room
            room -= second.minutes * fits
            (tasks if fits else left_out).append(second)
    planned = tuple(sorted(tasks, key=_day))
    return Plan(interview, hours, now.timestamp(), planned, tuple(left_out), target, tuple(sorted(known)))


def _drill_days(days: Sequence[date]) -> list[date]:
    """The days for mocks and hunts: every third, and the last two; fewer where there are few days."""
    last = min(LAST, (len(days) - 1) // 2)
    return [*days[EVERY - 1 : len(days) - last : EVERY], *days[len(days) - last :]]


def _groundwork_first(katas: Sequence[Kata]) -> list[Kata]:
    """Katas in their order, each after those of them that it builds on."""
    chosen, placed = {kata.name: kata for kata in katas}, dict[str, Kata]()

    def place(kata: Kata) -> None:
        for name in kata.builds_on:
            if name in chosen and name not in placed:
                place(chosen[name])
        placed.setdefault(kata.name, kata)

    for kata in katas:
        place(kata)
    return [*placed.values()]


def _drills(studied: Sequence[Task], katas: Sequence[Kata], days: Sequence[date], room: float) -> list[Task]:
    """A mock or a hunt on each of these days, of what was studied before, the most asked last before the interview."""
    drills, held = list[Task](), set[str]()
    when = {task.kata: task.day for task in studied}
    for number in reversed(range(len(days))):
        how = "hunt" if number % 2 and number < len(days) - LAST else "mock"
        share = room / (number + 1)
        ready = [kata for kata in katas if when[kata.name] < days[number] and kata.name not in held]
        fit = [kata for kata in ready if _minutes(kata, how == "hunt") <= share]
        for kata in fit[:1]:
            drills.append(Task(days[number], kata.name, _minutes(kata, how == "hunt"), True, how))
            held.add(kata.name)
            room -= drills[-1].minutes
    return drills


def _day(task: Task) -> date:
    return task.day


def _minutes(kata: Kata, again: bool) -> int:
    return math.ceil(kata.minutes / 2) if again else kata.minutes


def _date(moment: datetime) -> date:
    return moment.astimezone().date()


def _spread(katas: Sequence[Kata], days: Sequence[date]) -> list[Task]:
    """Katas in their order on these days, as evenly as whole katas go."""
    total, used, tasks = sum(kata.minutes for kata in katas), 0, []
    for kata in katas:
        tasks.append(Task(days[len(days) * used // total], kata.name, kata.minutes))
        used += kata.minutes
    return tasks


def _forgotten(kata: Kata, gradings: Sequence[Attempt], day: date, interview: date, now: datetime) -> list[date]:
    """The days before the interview on which a kata is due again if it is passed on this day, and each time after."""
    from fsrs import Rating

    (scheduler, card), days = replayed(kata, gradings), list[date]()
    while day < interview:
        days.append(day)
        noon = datetime.combine(day, time(12)).astimezone(UTC)
        card, _ = scheduler.review_card(card, Rating.Easy, max(now, noon))
        day = max(_date(card.due), day + timedelta(1))
    return days[1:]


def day_of(day: date, today: date) -> str:
    """A day as it is said: `today`, `tomorrow`, or `Mon 23 Nov`."""
    return {0: "today", 1: "tomorrow"}.get((day - today).days, f"{day:%a} {day.day} {day:%b}")


def plan_file() -> Path:
    """Where the plan is kept: beside the history."""
    return database.home() / "plan.json"


def keep_plan(plan: Plan) -> None:
    """Remember the plan instead of the one before. Raises Trouble."""
    try:
        files.write_atomic(plan_file(), json.dumps(asdict(plan), default=str, indent=1) + "\n")
    except OSError as error:
        raise Trouble(f"{plan_file()}: {error.strerror}; DOJO_HOME names another folder") from None


def kept_plan() -> Plan | None:
    """The plan that was made last, if it was not cleared. Raises Trouble when it cannot be read."""
    try:
        found = json.loads(plan_file().read_text("utf-8"))
        found["date"] = date.fromisoformat(found["date"])
        for name in ("tasks", "left_out"):
            found[name] = tuple(Task(**task | {"day": date.fromisoformat(task["day"])}) for task in found[name])
        return Plan(**found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise Trouble(f"{plan_file()} cannot be read: {error}. `{typed('plan --clear')}` removes it.") from None
