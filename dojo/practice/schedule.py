"""What to practise now, and until the interview: spaced repetition over what is remembered, and a plan by days.

The cards are replayed, never stored. The plan is: it is what its user has set out to do.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.content import files, master
from dojo.content.catalog import Kata, Trouble, typed
from dojo.content.master import Question
from dojo.practice import database
from dojo.practice.database import Answer, Attempt

if TYPE_CHECKING:
    from fsrs import Card, Scheduler

    from dojo.practice.progress import Standing

SITTING = 2 * 3600.0  # seconds of pause after which a new sitting begins
RATED = {
    "Again": "passed after the solution was shown",
    "Hard": "passed with hints",
    "Good": "passed after par",
    "Easy": "passed",
}


@dataclass(frozen=True)
class Sitting:
    """Attempts at one kata without a long pause between them."""

    attempts: tuple[Attempt, ...]

    @property
    def end(self) -> Attempt:
        """The first pass, or the last try."""
        return next((a for a in self.attempts if a.passed), self.attempts[-1])

    @property
    def taken(self) -> float:
        """Seconds from the start to the pass: by the clock of a mock, or from the first try."""
        return self.end.spent if self.end.spent is not None else self.end.at - self.attempts[0].at


@dataclass(frozen=True)
class Memory:
    """What the scheduler makes of all gradings of a kata."""

    due: datetime
    recall: float  # how likely it is still known
    rating: str  # of the last sitting
    at: float  # the end of it


@dataclass(frozen=True)
class Due:
    """A kata to practise, and why; `recall` is how likely it is still known, None for a new one."""

    kata: Kata
    reason: str
    recall: float | None


def sittings(attempts: Sequence[Attempt]) -> list[Sitting]:
    """Attempts at one kata, oldest first, in sittings."""
    groups: list[list[Attempt]] = []
    for attempt in attempts:
        new = not groups or attempt.at - groups[-1][-1].at > SITTING or attempt.kind != groups[-1][-1].kind
        groups.append([attempt]) if new else groups[-1].append(attempt)
    return [Sitting(tuple(group)) for group in groups]


def minutes_to_pass(attempts: Sequence[Attempt]) -> float | None:
    """Minutes of the last sitting at one kata; None if it did not end in a pass, or was too short to have been one."""
    last = sittings(attempts)[-1:]
    return next((sitting.taken / 60 for sitting in last if sitting.end.passed and sitting.taken >= 30), None)


def rating(sitting: Sitting, par: float) -> str:
    """How it went, in the scheduler's words; `par` in seconds."""
    if not sitting.end.passed or sitting.end.shown:
        return "Again"
    if sitting.end.hints:
        return "Hard"
    return "Easy" if sitting.taken <= par else "Good"


def memory(kata: Kata, gradings: Sequence[Attempt], now: datetime) -> Memory | None:
    """What is remembered of a kata after these gradings, oldest first; None when there are none."""
    if not gradings:
        return None
    scheduler, card = _replayed(kata, gradings)
    last = sittings(gradings)[-1]
    recall = scheduler.get_card_retrievability(card, now)
    return Memory(card.due, recall, rating(last, 60.0 * kata.minutes), last.end.at)


def _replayed(kata: Kata, gradings: Sequence[Attempt]) -> tuple[Scheduler, Card]:
    """The scheduler's card of a kata after these gradings."""
    from fsrs import Card, Rating, Scheduler

    scheduler, card = Scheduler(enable_fuzzing=False), Card()
    for sitting in sittings(gradings):
        word, at = rating(sitting, 60.0 * kata.minutes), sitting.end.at
        card, _ = scheduler.review_card(card, Rating[word], datetime.fromtimestamp(at, UTC))
    return scheduler, card


def propose(
    katas: Mapping[str, Kata], standings: Mapping[str, Standing], now: datetime | None = None, plan: Plan | None = None
) -> list[Due]:
    """Katas to practise, the most urgent first: planned, due, and new ones whose groundwork has been passed."""
    now = now or datetime.now(UTC)
    planned = _planned(katas, standings, now.astimezone().date(), plan)
    due, new = [], []
    for name, kata in katas.items():
        standing = standings[name]
        known, last = standing.memory, standing.last
        if known is None or last is None:
            if all(standings[base].passed for base in kata.builds_on):
                base = f"builds on {', '.join(kata.builds_on)}" if kata.builds_on else "needs no other"
                new.append(Due(kata, f"new; {base}", None))
        elif not last.passed:
            due.append(Due(kata, f"failed {_ago(last.at, now)}", 0.0))
        elif known.due <= now:
            reason = f"{RATED[known.rating]} {_ago(known.at, now)}, {known.recall:.0%} likely still known"
            due.append(Due(kata, reason, known.recall))
    due.sort(key=lambda each: each.recall or 0.0)
    named = {each.kata.name for each in planned}
    return planned + [each for each in due + new if each.kata.name not in named]


@dataclass(frozen=True)
class QuestionCard:
    """A question of a kata, and when it is due again; None as long as it has not been answered."""

    kata: Kata
    question: Question
    due: datetime | None


def question_cards(katas: Iterable[Kata], answers: Iterable[Answer]) -> list[QuestionCard]:
    """The questions of these katas, in the order of their masters, as they stand after these answers, oldest first."""
    of: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        of.setdefault((answer.kata, answer.question), []).append(answer)
    return [QuestionCard(k, q, _question_due(of.get((k.name, q.text), []))) for k in katas for q in master.questions(k)]


def _question_due(answers: Sequence[Answer]) -> datetime | None:
    """When a question is to be asked again, tomorrow at the earliest: a few minutes a day are for all of them."""
    if not answers:
        return None
    from fsrs import Card, Rating, Scheduler

    scheduler, card = Scheduler(enable_fuzzing=False, learning_steps=(), relearning_steps=()), Card()
    for answer in answers:
        at = datetime.fromtimestamp(answer.at, UTC)
        card, _ = scheduler.review_card(card, Rating[answer.rating.capitalize()], at)
    return card.due


def questions_due(cards: Iterable[QuestionCard], now: datetime) -> list[QuestionCard]:
    """What is due of these, the longest first."""
    return sorted((card for card in cards if card.due and card.due <= now), key=lambda card: card.due or now)


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
            reason = f"planned for {day_of(task.day, today)}{', again' * task.again}"
            found.setdefault(task.kata, Due(katas[task.kata], reason, known.recall if known else None))
    return list(found.values())


@dataclass(frozen=True)
class Task:
    """A kata on a day of a plan; `again` is for one that was passed before, to keep it in mind."""

    day: date
    kata: str
    minutes: int
    again: bool = False


@dataclass(frozen=True)
class Plan:
    """Which kata on which day until the interview, made at a time (seconds since 1970); and what found no room."""

    date: date
    hours: float
    made: float
    tasks: tuple[Task, ...]
    left_out: tuple[Task, ...]

    def done(self, standings: Mapping[str, Standing]) -> list[bool]:
        """Of each task, whether its kata has been passed as often since the plan was made."""
        asked, found = Counter[str](), []
        for task in self.tasks:
            gradings = standings[task.kata].gradings if task.kata in standings else ()
            asked[task.kata] += 1
            passes = sum(s.end.passed and s.end.at >= self.made for s in sittings(gradings))
            found.append(passes >= asked[task.kata])
        return found


def make_plan(
    katas: Mapping[str, Kata], standings: Mapping[str, Standing], interview: date, hours: float, now: datetime
) -> Plan:
    """What fits into the hours, on the days before the interview.

    What was tried and not passed comes first, then what the scheduler expects to be forgotten by the interview, then
    new katas in the order of learning, and at last a second time for all of these. A second time takes half of par.
    """
    today, room = _date(now), 60.0 * hours
    begun = [k for k in katas.values() if (last := standings[k.name].last) and not last.passed]
    due = {k: _date(d) for k in katas.values() if k not in begun and (d := standings[k.name].due)}
    fading = sorted((k for k in due if due[k] < interview), key=due.__getitem__)
    new = [k for k in katas.values() if not standings[k.name].gradings]
    known = {name for name, standing in standings.items() if standing.gradings}
    queue, first, tasks, left_out = [*begun, *fading, *new], list[Kata](), list[Task](), list[Task]()
    while kata := next((k for k in queue if k not in new or {*k.builds_on} <= known), None):
        queue.remove(kata)
        task = Task(max(today, due.get(kata, today)), kata.name, _minutes(kata, kata in due), kata in due)
        if task.minutes > room:
            left_out.append(task)
            continue
        room -= task.minutes
        known.add(kata.name)
        tasks += [task] if task.again else []
        first += [] if task.again else [kata]
    left_out += [Task(today, kata.name, kata.minutes) for kata in queue]  # for their groundwork is left out
    tasks += _spread(first, today, max(1, (interview - today).days))
    for task in sorted(tasks, key=_day):
        kata = katas[task.kata]
        for day in _forgotten(kata, standings[task.kata].gradings, task.day, interview, now):
            second = Task(day, task.kata, _minutes(kata, True), True)
            fits = second.minutes <= room
            room -= second.minutes * fits
            (tasks if fits else left_out).append(second)
    return Plan(interview, hours, now.timestamp(), tuple(sorted(tasks, key=_day)), tuple(left_out))


def _day(task: Task) -> date:
    return task.day


def _minutes(kata: Kata, again: bool) -> int:
    return math.ceil(kata.minutes / 2) if again else kata.minutes


def _date(moment: datetime) -> date:
    return moment.astimezone().date()


def _spread(katas: Sequence[Kata], today: date, days: int) -> list[Task]:
    """Katas in their order on so many days, as evenly as whole katas go."""
    total, used, tasks = sum(kata.minutes for kata in katas), 0, []
    for kata in katas:
        tasks.append(Task(today + timedelta(days * used // total), kata.name, kata.minutes))
        used += kata.minutes
    return tasks


def _forgotten(kata: Kata, gradings: Sequence[Attempt], day: date, interview: date, now: datetime) -> list[date]:
    """The days before the interview on which a kata is due again if it is passed on this day, and each time after."""
    from fsrs import Rating

    (scheduler, card), days = _replayed(kata, gradings), list[date]()
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
