"""Deadlines, extensions and late days: what each attempt loses for being late.

Katas that are due at the same time are one assignment: it takes the student's late days once, for its latest kata.
Days are begun days after the deadline, and free ones are taken in the order of the deadlines.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dojo.cohort.course.reading import Reader, meant
from dojo.cohort.course.roster import Roster
from dojo.cohort.records import Arrival
from dojo.content.catalog import Trouble

ALL = "all"  # the name that stands for every kata, which no kata has
DAY = timedelta(days=1)
EXAMPLE = "2026-10-15T23:59:00"


@dataclass(frozen=True)
class Late:
    """An attempt that came after its deadline."""

    due: str
    at: str  # nothing where the platform says only that it is late
    days: int  # begun
    free: int  # of these, late days that the student had left
    lost: float  # the share of its points
    note: str = ""

    @property
    def text(self) -> str:
        """In words that follow the kata's name."""
        by = f"{self.days} day{'s' * (self.days != 1)} late" if self.days else "late"
        when = f" (due {self.due}, handed in {self.at or 'at a time that is not told'})"
        free = f", {self.free} of them free" if self.free else ""
        lost = f", which costs {self.lost:.0%} of its points" if self.lost else ", which costs nothing"
        return f"{by}{when}{free}{lost}{f'; {self.note}' if self.note else ''}"


@dataclass(frozen=True)
class Deadlines:
    """The deadlines of a course, by kata or for all; none of them is no deadline."""

    zone: tzinfo = UTC
    due: Mapping[str, datetime] = field(default_factory=dict)
    extensions: Mapping[str, Mapping[str, datetime]] = field(default_factory=dict)  # by student
    days: int = 0  # late days that each student may use for nothing
    penalty: float = 0.0  # the share of a kata's points that each further day costs
    grace: timedelta = timedelta(0)

    def due_for(self, student: str, kata: str) -> datetime | None:
        """Until when a student may hand in a kata; the latest of what is said for it."""
        own = self.extensions.get(student, {})
        base = self.due.get(kata, self.due.get(ALL))
        dates = [each for each in (base, own.get(kata), own.get(ALL)) if each is not None]
        return max(dates) if base is not None else None

    def late(self, student: str, arrivals: Mapping[str, Arrival]) -> dict[str, Late]:
        """Which of a student's katas came late, and what that costs."""
        assignments: dict[datetime, dict[str, tuple[int, str]]] = defaultdict(dict)
        found: dict[str, Late] = {}
        for kata, arrival in arrivals.items():
            due = self.due_for(student, kata)
            if due is None:
                continue
            if arrival.at is not None:
                after = self._zoned(arrival.at) - due
                if after > self.grace:
                    assignments[due][kata] = (math.ceil(after / DAY), "")
            elif arrival.late:
                own = self.extensions.get(student, {})
                if kata in own or ALL in own:
                    note = "the platform marks it late and tells no time: with the extension it counts as in time"
                    found[kata] = Late(self._shown(due), "", 0, 0, 0.0, note)
                else:
                    assignments[due][kata] = (1, "the platform marks it late and tells no time: taken for a day")
        left = self.days
        for due in sorted(assignments):
            free = min(left, max(days for days, _ in assignments[due].values()))
            left -= free
            for kata, (days, note) in assignments[due].items():
                lost = min(1.0, max(0, days - free) * self.penalty)
                at = arrivals[kata].at
                shown = self._shown(self._zoned(at)) if at else ""
                found[kata] = Late(self._shown(due), shown, days, min(free, days), lost, note)
        return found

    def used(self, late: Mapping[str, Late]) -> int:
        """How many of the free days a student has used."""
        by_due: dict[str, int] = {}
        for each in late.values():
            by_due[each.due] = max(by_due.get(each.due, 0), each.free)
        return sum(by_due.values())

    def _zoned(self, at: datetime) -> datetime:
        return (at if at.tzinfo else at.replace(tzinfo=self.zone)).astimezone(UTC)

    def _shown(self, at: datetime) -> str:
        return f"{at.astimezone(self.zone):%Y-%m-%d %H:%M}"


def read(reader: Reader, table: Mapping[str, Any], katas: Collection[str]) -> Deadlines:
    """The tables [deadlines], [late] and [extensions] of a course's file; students are as the file names them."""
    due = reader.table(table.get("deadlines", {}), "deadlines")
    late = reader.table(table.get("late", {}), "late")
    extensions = reader.table(table.get("extensions", {}), "extensions")
    if not due:
        if without := next((key for key in ("late", "extensions") if table.get(key)), ""):
            raise Trouble(
                f"{reader.path}: {without} without deadlines says nothing: add [deadlines] with all = {EXAMPLE}"
            )
        return Deadlines()
    reader.names(due, "deadlines", ("timezone", ALL, *katas), "a kata")
    if "timezone" not in due:
        raise Trouble(f'{reader.path}: deadlines.timezone is missing: add timezone = "Europe/Berlin", or your own')
    name = reader.word(due["timezone"], "deadlines.timezone", "Europe/Berlin")
    try:
        zone = ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise Trouble(f"{reader.path}: deadlines.timezone: there is no '{name}': write one as Europe/Berlin") from None
    times = {kata: _time(reader, value, f"deadlines.{kata}", zone) for kata, value in due.items() if kata != "timezone"}
    reader.names(late, "late", ("days", "penalty", "grace_minutes"), "a key of [late]")
    days = reader.number(late.get("days", 0), "late.days")
    penalty = reader.number(late.get("penalty", 0), "late.penalty")
    if days != int(days):
        raise Trouble(f"{reader.path}: late.days is {days:g}: write a whole number of days")
    if penalty > 1:
        raise Trouble(
            f"{reader.path}: late.penalty is {penalty:g}: write the share of the points that a day costs, 0 to 1"
        )
    own = {}
    for student, value in extensions.items():
        key = f"extensions.{student}"
        given = reader.table(value, key)
        reader.names(given, key, (ALL, *katas), "a kata")
        own[student] = {kata: _time(reader, each, f"{key}.{kata}", zone) for kata, each in given.items()}
        for kata, until in own[student].items():
            base = times.get(kata, times.get(ALL))
            if base is not None and until < base:
                raise Trouble(f"{reader.path}: {key}.{kata} is before the deadline: an extension is later than that")
            if base is None and kata != ALL:
                raise Trouble(f"{reader.path}: {key}.{kata}: {kata} has no deadline: add one to [deadlines]")
    grace = timedelta(minutes=reader.number(late.get("grace_minutes", 0), "late.grace_minutes"))
    return Deadlines(zone, times, own, int(days), penalty, grace)


def by_student(deadlines: Deadlines, path: Any, roster: Roster, students: Collection[str]) -> Deadlines:
    """The same with each extension under its student's name as results have it. Raises Trouble."""
    own: dict[str, dict[str, datetime]] = defaultdict(dict)
    for word, given in deadlines.extensions.items():
        named = roster.named(word, students)
        if not named:
            known = sorted({*roster.by_name, *students})
            raise Trouble(f"{path}: extensions.{word}: nobody is called '{word}'{meant(word, known)}")
        for student in named:
            for kata, until in given.items():
                own[student][kata] = max(until, own[student].get(kata, until))
    return replace(deadlines, extensions=own)


def _time(reader: Reader, value: Any, key: str, zone: tzinfo) -> datetime:
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=zone)).astimezone(UTC)
    if isinstance(value, date):
        return datetime.combine(value, time(23, 59, 59), zone).astimezone(UTC)
    last = key.rpartition(".")[2]
    raise Trouble(f"{reader.path}: {key} is {value!r}: write a day or a time without quotes, as in {last} = {EXAMPLE}")
