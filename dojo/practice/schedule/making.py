"""Makes a plan: what of the katas fits into the hours until the interview, and on which day."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from operator import attrgetter
from typing import TYPE_CHECKING

from dojo.content.catalog import Kata
from dojo.practice.schedule import drills
from dojo.practice.schedule.asked import most_asked_first, weight
from dojo.practice.schedule.plans import Plan, Task
from dojo.practice.schedule.repetition import replayed

if TYPE_CHECKING:
    from dojo.practice.database import Attempt
    from dojo.practice.schedule.standing import Standing

LADDERS = "interviews"  # the track of the katas in stages: they are held, not studied
EVERY, LAST = 3, 2  # a hunt and a ladder every so many days, and before the interview nothing new for so many
PRACTICE = 1 / 3  # of the hours, kept for ladders, mocks and hunts
LADDER, MOCKS, HUNTS = 0.5, 0.35, 0.15  # of that, at most for one ladder, for the last days' mocks, and for hunts
MEMORY = 0.15  # of the hours, at most for drills of what one says one knows
LONGEST_HUNTED = 20  # minutes of par of a kata that may be hunted in half of it, however few the hours
SEVERAL = 3  # katas of a mock that stands where there is no ladder
THIRD = 3  # one kata in so many, those that are asked most, is written or read
# What cannot be written in the hours that there are is read. Six hundred words and forty lines of code, as statement,
# solution and explanation have in the median, are five minutes for who writes PyTorch daily. It rests on that alone:
# who has read a kata has not solved it, so it is not drilled, mocked or counted. What is no longer than a drill is
# written in any case, and reading takes no more than half of the time: what was written is remembered better.
READ, READING = 5, 0.5


@dataclass
class _Room:
    """The minutes that are left; what fits is taken, what does not is put on record."""

    left: float
    tasks: list[Task] = field(default_factory=list)
    left_out: list[Task] = field(default_factory=list)

    def take(self, task: Task, kept: float = 0.0) -> bool:
        """Take a task if it fits beside the minutes that are kept for others."""
        if task.minutes > self.left - kept:
            return False
        self.left -= task.minutes
        self.tasks.append(task)
        return True

    def take_or_tell(self, task: Task, kept: float = 0.0) -> None:
        """Take a task, or say that it found no room."""
        if not self.take(task, kept):
            self.left_out.append(task)


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
    new katas, those that are asked most, at par; of the third that is asked most, what has no room to be written is
    read. Of what is chosen, groundwork comes first. What is known stands as a drill where it is short enough, and is
    not studied. Every third day has a hunt and a ladder, the last two have mocks and what is due. What room is left is
    for a second time.
    """
    today = _date(now)
    days = [today + timedelta(n) for n in range(max(1, (interview - today).days))]
    every, last = _practice_days(days)
    asked = most_asked_first((kata for kata in katas.values() if kata.track != LADDERS), target)
    third = {kata.name for kata in asked[: math.ceil(len(asked) / THIRD)]}
    tried = {kata.name for kata in asked if standings[kata.name].gradings}
    begun = [k for k in asked if (end := standings[k.name].last) and not end.solved]
    due = {k: _date(d) for k in asked if k not in begun and (d := standings[k.name].due)}
    new = [kata for kata in asked if kata.name not in tried and kata.name not in known]
    memory = _from_memory(asked, known, tried, [day for day in days if day not in last], 60 * hours)
    room = _Room(60.0 * hours)
    kept: float = sum(task.minutes for task in memory)
    practice = PRACTICE * room.left if every or last else 0.0

    for kata in begun:
        room.take_or_tell(Task(today, kata.name, kata.minutes), kept)
    for kata in sorted((k for k in due if due[k] < interview), key=due.__getitem__):
        room.take_or_tell(_once_more(kata, max(today, due[kata])), kept)
    kept += min(practice, room.left)
    _study(room, new, third, kept)
    first = {task.kata: task for task in room.tasks if not task.again}
    again = [task for task in room.tasks if task.again]
    order = _groundwork_first([katas[name] for name in first])
    study = [day for day in days if day not in every and day not in last]
    room.tasks = [*again, *_spread([first[kata.name] for kata in order], study)]
    for task in memory:
        room.take_or_tell(task)

    written = {task.kata: task.day for task in room.tasks if not task.again and not task.how}
    practised = written | {name: today for name in known if name in katas} | {task.kata: today for task in again}
    ladders = most_asked_first((kata for kata in katas.values() if kata.track == LADDERS), target)
    longest_first = sorted((k for k in asked if k.name in practised), key=lambda k: (-weight(k, target), -k.minutes))
    _practise(room, longest_first, ladders, practised, {*written}, every, last)

    by_day = attrgetter("day")
    latest = {task.kata: task.day for task in sorted(room.tasks, key=by_day) if task.how in ("", "drill")}
    for name, from_day in latest.items():
        for day in _forgotten(katas[name], standings[name].gradings, from_day, interview, now):
            room.take_or_tell(_once_more(katas[name], day))
    planned = tuple(sorted(room.tasks, key=by_day))
    return Plan(interview, hours, now.timestamp(), planned, tuple(room.left_out), target, tuple(sorted(known)))


def _practice_days(days: Sequence[date]) -> tuple[list[date], list[date]]:
    """The days for a hunt and a ladder, every third, and the last two, for mocks; fewer where there are few days."""
    last = min(LAST, (len(days) - 1) // 2)
    return [*days[EVERY - 1 : len(days) - last : EVERY]], [*days[len(days) - last :]]


def _from_memory(
    asked: Sequence[Kata], known: Collection[str], tried: Collection[str], days: Sequence[date], minutes: float
) -> list[Task]:
    """Drills of what one says one knows and the scheduler has never seen, at most one a day, the most asked first."""
    chosen, left = list[Task](), MEMORY * minutes
    for kata in asked:
        if kata.name in known and kata.name not in tried and drills.fits(kata) and len(chosen) < len(days):
            if drills.minutes(kata) > left:
                break
            left -= drills.minutes(kata)
            chosen.append(_once_more(kata, days[0]))
    return [replace(task, day=days[len(days) * n // len(chosen)]) for n, task in enumerate(chosen)]


def _study(room: _Room, new: Sequence[Kata], third: Collection[str], kept: float) -> None:
    """Take new katas: of the third in the order of learning, at par as long as there is time to read the others of it.

    Then the rest, the most asked first. What builds on what is not written is not written either.
    """
    half, unwritten = READING * max(0.0, room.left - kept), set[str]()
    to_read = _groundwork_first([kata for kata in new if kata.name in third])
    for kata in (*to_read, *(kata for kata in new if kata.name not in third)):
        to_read = to_read[kata.name in third :]
        others = sum(READ if other.minutes > drills.LONGEST else other.minutes for other in to_read)
        at_par = Task(date.min, kata.name, kata.minutes)
        if unwritten.intersection(kata.builds_on) or not room.take(at_par, kept + min(half, others)):
            unwritten.add(kata.name)
            read = Task(date.min, kata.name, READ, how="read")
            if kata.name not in third or not room.take(read, kept):
                room.left_out.append(at_par)


def _practise(
    room: _Room,
    ready: Sequence[Kata],
    ladders: Sequence[Kata],
    since: Mapping[str, date],
    written: Collection[str],
    every: Sequence[date],
    last: Sequence[date],
) -> None:
    """A mock on each of the last days, and a hunt and a ladder every third day, of what was met on days before.

    Where no ladder fits, a mock of several katas stands for it. The most asked comes last before the interview, and no
    kata twice. A hunt is of what was written, since it shows the solution.
    """
    held, whole = set[str](), room.left
    planned = {task.kata for task in room.tasks if task.again}

    def free(day: date, among: Iterable[Kata], most: float) -> list[Kata]:
        return [k for k in among if since[k.name] < day and k.name not in held and k.minutes <= most]

    def take(day: date, how: str, chosen: Sequence[Kata], minutes: int) -> None:
        names = [kata.name for kata in chosen]
        if names and room.take(Task(day, names[0], minutes, True, how, tuple(names[1:]))):
            held.update(names)

    def ladder(day: date, most: float) -> bool:
        chosen = [each for each in ladders if each.name not in held and each.minutes <= most][:1]
        take(day, "ladder", chosen, sum(kata.minutes for kata in chosen))
        return bool(chosen)

    with_ladder = [day for day in reversed(every[-1:]) if ladder(day, LADDER * whole)]
    for day in reversed(last):
        chosen = free(day, ready, MOCKS * whole / len(last))[:1]
        take(day, "mock", chosen, sum(kata.minutes for kata in chosen))
    for day in reversed(every):
        own = [kata for kata in ready if kata.name in written]
        chosen = free(day, own, max(LONGEST_HUNTED, 2 * HUNTS * whole / len(every)))[:1]
        take(day, "hunt", chosen, sum(math.ceil(kata.minutes / 2) for kata in chosen))
    for number, day in reversed([*enumerate(every, 1)]):
        if day in with_ladder or ladder(day, room.left):
            continue
        share, several = room.left / number, list[Kata]()
        for kata in sorted(free(day, ready, share), key=lambda kata: kata.name in planned):  # what has no drill first
            if len(several) < SEVERAL and sum(k.minutes for k in (*several, kata)) <= share:
                several.append(kata)
        take(day, "mock", several if len(several) > 1 else [], sum(kata.minutes for kata in several))


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


def _once_more(kata: Kata, day: date) -> Task:
    """A kata that was met before: as a drill where it is short enough, else in half of its par."""
    if drills.fits(kata):
        return Task(day, kata.name, drills.minutes(kata), True, "drill")
    return Task(day, kata.name, math.ceil(kata.minutes / 2), True)


def _date(moment: datetime) -> date:
    return moment.astimezone().date()


def _spread(tasks: Sequence[Task], days: Sequence[date]) -> list[Task]:
    """Tasks in their order on these days, as evenly as whole ones go."""
    total, used, spread = sum(task.minutes for task in tasks), 0, []
    for task in tasks:
        spread.append(replace(task, day=days[len(days) * used // total]))
        used += task.minutes
    return spread


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
