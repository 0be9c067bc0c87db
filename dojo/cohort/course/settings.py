"""A course: one TOML file with points, deadlines, what students see, and the files of roster and decisions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dojo.cohort.course import deadlines, decisions, roster, rubric, worksheet
from dojo.cohort.course.deadlines import Deadlines, Late
from dojo.cohort.course.decisions import Decision
from dojo.cohort.course.reading import Reader
from dojo.cohort.course.roster import Roster
from dojo.cohort.course.rubric import TIERS, Rubric
from dojo.cohort.course.worksheet import Worksheet
from dojo.cohort.records import Arrival
from dojo.content import catalog
from dojo.content.catalog import Trouble

KEYS = (*rubric.KEYS, "title", "roster", "decisions", "moodle_worksheet", "deadlines", "late", "extensions", "visible")
TITLE = "Katas"


@dataclass(frozen=True)
class Course:
    """What a teacher says of a course beside what is handed in."""

    path: Path | None = None
    rubric: Rubric | None = None
    title: str = TITLE  # of the assignment, on Canvas and Moodle
    roster: Roster = field(default_factory=Roster)
    deadlines: Deadlines = field(default_factory=Deadlines)
    visible: tuple[str, ...] = TIERS  # the tiers that students are shown
    decisions: Path | None = None
    worksheet: Worksheet | None = None


@dataclass(frozen=True)
class Rules:
    """What a course says of those who have handed in, by student and kata."""

    course: Course = field(default_factory=Course)
    late: Mapping[tuple[str, str], Late] = field(default_factory=dict)
    decisions: Mapping[tuple[str, str], Decision] = field(default_factory=dict)


def read(path: Path, graded: Iterable[str] = (), known: Collection[str] | None = None) -> Course:
    """The course in a file, which must say what each of the `graded` katas is worth.

    Raises Trouble with the file, the key and what to write instead.
    """
    reader = Reader(path)
    table = reader.load(f"It looks like this: [default], and below it {rubric.EXAMPLE}")
    reader.names(table, "", KEYS, "a key of a course")
    known = catalog.katas() if known is None else known
    people = roster.read(reader.file(table["roster"], "roster", "roster.csv")) if "roster" in table else Roster()
    files = {}
    for key, example in (("decisions", "decisions.csv"), ("moodle_worksheet", "Grades.csv")):
        files[key] = reader.file(table[key], key, example) if key in table else None
    sheet = files["moodle_worksheet"]
    return Course(
        path,
        rubric.of_table(reader, table, graded, known),
        reader.word(table.get("title", TITLE), "title", "Homework 3"),
        people,
        deadlines.read(reader, table, known),
        _visible(reader, table.get("visible", {"tiers": list(TIERS)})),
        files["decisions"],
        worksheet.read(sheet, people) if sheet else None,
    )


def _visible(reader: Reader, value: object) -> tuple[str, ...]:
    table = reader.table(value, "visible")
    reader.names(table, "visible", ("tiers",), "a key of [visible]")
    tiers = table.get("tiers")
    if not isinstance(tiers, list) or not all(isinstance(each, str) for each in tiers):
        raise Trouble(f'{reader.path}: visible.tiers is {tiers!r}: write a list, as in tiers = ["core"]')
    reader.names(dict.fromkeys(tiers), "visible.tiers", TIERS, "a tier")
    if tiers and "core" not in tiers:
        raise Trouble(
            f"{reader.path}: visible.tiers shows {tiers} without core, which decides what these count: add core"
        )
    return tuple(tier for tier in TIERS if tier in tiers)


def applied(
    course: Course, arrivals: Mapping[tuple[str, str], Arrival], students: Iterable[str], katas: Collection[str]
) -> Rules:
    """The course's rules for what was handed in, by the name under which it was; `students` are these names.

    Raises Trouble where the course speaks of nobody, or of a kata that is not graded.
    """
    units: dict[str, dict[str, Arrival]] = {unit: {} for unit in students}
    for (unit, kata), each in arrivals.items():
        units[unit][kata] = each
    names = [name for unit in units for name in course.roster.members_of(unit)]
    due = deadlines.by_student(course.deadlines, course.path, course.roster, names)
    times = course.worksheet.times if course.worksheet else {}
    late: dict[tuple[str, str], Late] = {}
    for unit, own in units.items():
        members = course.roster.members_of(unit)
        given = [times[name] for name in (*members, unit) if name in times]
        if given:
            own = {kata: each if each.at else Arrival(max(given)) for kata, each in own.items()}
        for name in members:
            late |= {(name, kata): each for kata, each in due.late(name, own).items()}
    decided = {}
    if course.decisions:
        decided = decisions.read(course.decisions, course.roster, names, katas)
    return Rules(course, late, decided)
