"""Whose is what: a folder of folders, and the exports of Moodle, Canvas and Gradescope as these lay them out.

- **Moodle**, "Download all submissions": `Ada Lovelace_4711_assignsubmission_file/gqa.py`, in older versions with an
  underscore at the end, or without folders `Ada Lovelace_4711_assignsubmission_file_gqa.py`. The number is another in
  each assignment. Team submissions have the team's name; with blind marking everybody is `Participant`.
- **Canvas**, "Download submissions": `lovelaceada_LATE_12_345_gqa-1.py`, of which 12 is the student and 345 the upload.
  Anonymous ones are `anon_x7Yz2_345_gqa.py`; what was typed into Canvas is `lovelaceada_12_text.html`.
- **Gradescope**, "Export submissions": `assignment_1_export/submission_2/gqa.py`, and in a `submission_metadata.yml`
  the submitters of each.

Only what lies at the top says whose it is, for what lies further down, a student has named.

When it was handed in: Gradescope's metadata tells the time of each submission, Canvas only that it is LATE, Moodle
nothing (its grading worksheet does), a table may have a column `time`, and a folder, a zip or a clone tells nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from dojo.cohort.course.roster import Person, Roster
from dojo.cohort.records import Arrival, Problem
from dojo.cohort.submissions.archive import InZip, is_zip
from dojo.cohort.submissions.names import is_attempt, shown
from dojo.cohort.submissions.student import Handed
from dojo.cohort.submissions.tree import HIDDEN, File, Folder, Unreadable, hidden, visible
from dojo.content.catalog import TRACKS

NUMBER = "[0-9]{1,20}"
MOODLE = re.compile(rf"(?P<who>[^_]+)(?:_(?P<number>{NUMBER}))?_assignsubmission_[a-z]+(?:_(?P<file>.+)?)?", re.DOTALL)
CANVAS = (
    re.compile(rf"(?P<late>LATE_)?(?P<who>anon_(?P<number>\w+?))_(?P<upload>{NUMBER})_(?P<file>.+)", re.DOTALL),
    re.compile(rf"(?P<who>.+?)(?P<late>_LATE)?_(?P<number>{NUMBER})_(?P<upload>{NUMBER})_(?P<file>.+)", re.DOTALL),
    re.compile(rf"(?P<who>.+?)(?P<late>_LATE)?_(?P<number>{NUMBER})_(?P<file>(?:text|link)\.html)", re.DOTALL),
)
GRADESCOPE = "submission_metadata.yml"
METADATA_LIMIT = 64 << 20  # bytes
NOBODY = {*TRACKS, "katas", "notebooks"}  # a folder of this name is a student's, but is no student

Open = Callable[[File], Folder]  # a zip as a folder; raises Unreadable
Shares = dict[str, list[Handed]]  # what each student has handed in


@dataclass(frozen=True)
class Named:
    """Something handed in, and who a layout says has done so."""

    people: tuple[Person, ...]
    handed: Handed
    number: str = ""  # what tells two of a name apart

    @property
    def name(self) -> str:
        return " & ".join(person.name for person in self.people)


def shares(top: Folder, opened: Open, roster: Roster) -> tuple[Shares, list[Problem]]:
    """What each student has handed in, by their name or group on the roster, and what is nobody's.

    Who is not on the roster, or where there is none, is called as the layout says. Raises Unreadable.
    """
    found: Shares = defaultdict(list)
    problems: list[Problem] = []
    for each in _exports(top, opened) or [_unwrapped(top)]:
        named: dict[str, list[Named]] = defaultdict(list)
        for entry in _named(each, problems):
            named[shown(entry.name).strip() or repr(entry.name)].append(entry)
        for name, entries in named.items():
            path = entries[0].handed.entry.path
            if len({entry.name for entry in entries}) > 1:
                alike = f"'{name}' is spelled in several ways that look the same: taken for one student"
                problems.append(Problem("", path, alike))
            alone = len({entry.number for entry in entries}) == 1
            for entry in entries:
                own = name if alone else f"{name} ({entry.number})"
                units = owners(entry.people, own, entry.handed.entry.path, roster, problems)
                for unit in units:
                    found[unit].append(entry.handed)
    return found, problems + _twins(found)


def owners(
    people: tuple[Person, ...], name: str, path: str, roster: Roster, problems: list[Problem]
) -> tuple[str, ...]:
    """Under which names on the roster this counts; under its own where it is nobody's there, which is told."""
    if not roster.members:
        return (name,)
    units = {person: roster.unit_of(person) for person in people}
    found = tuple(dict.fromkeys(unit for unit in units.values() if unit))
    unknown = " & ".join(shown(person.name) for person, unit in units.items() if unit is None)
    if unknown:
        why = f"'{unknown}' is nobody on the roster, or one of several: add the name, number or e-mail address to it"
        if not any(each.why == why for each in problems):
            problems.append(Problem("", path, why))  # a word to the teacher, and none to the student
    return found or (name,)


def recognised(entry: File | Folder) -> re.Match[str] | None:
    """What a platform says by the name of a file or folder at the top."""
    moodle = MOODLE.fullmatch(entry.name)
    if moodle and bool(moodle["file"]) == isinstance(entry, File):
        return moodle
    found = (pattern.fullmatch(entry.name) for pattern in CANVAS if isinstance(entry, File))
    return next(filter(None, found), None)


def _exports(top: Folder, opened: Open) -> list[Folder]:
    """The platforms' exports, one an assignment, that a folder holds, if it holds no other folders and zips.

    A student can lay out a folder like an export, but not those of the others.
    """
    found: list[Folder] = []
    for entry in visible(top):
        if isinstance(entry, File) and not is_zip(entry):
            continue
        if recognised(entry):
            return []
        try:
            export = _unwrapped(opened(entry) if isinstance(entry, File) else entry)
            if not _is_export(export):
                return []
        except Unreadable:
            return []
        found.append(export)
    return found


def _is_export(folder: Folder) -> bool:
    return folder.get(GRADESCOPE) is not None or any(map(recognised, folder.entries()))


def _unwrapped(top: Folder) -> Folder:
    """What lies in the one folder that everything lies in, as in the zip of a folder."""
    entries = visible(top)
    if len(entries) != 1 or isinstance(only := entries[0], File) or recognised(only) or only.name in NOBODY:
        return top
    inside = visible(only)
    of_folders = all(is_zip(entry) or not isinstance(entry, File) for entry in inside)
    wraps = isinstance(top, InZip) and of_folders and not NOBODY & {entry.name for entry in inside}
    return only if wraps or _is_export(only) else top


def _named(top: Folder, problems: list[Problem]) -> Iterator[Named]:
    """What was handed in, and by whom."""
    submitters = _submitters(top, problems)
    problems += [Problem("", each.path, HIDDEN) for each in hidden(top)]
    for entry in visible(top):
        if match := recognised(entry):
            words = match.groupdict()
            canvas = f"canvas:{match['number']}" if "upload" in words or "late" in words else ""
            if isinstance(entry, File):
                entry = replace(entry, name=match["file"], upload=int(words.get("upload") or 0))
            handed = Handed(entry, "", Arrival(late=bool(words.get("late"))))
            yield Named((Person(match["who"], (canvas,)),), handed, match["number"] or "")
        elif isinstance(entry, File):
            if is_zip(entry) and not entry.refused:
                yield Named((Person(entry.name[: -len(".zip")]),), Handed(entry))
            elif entry.refused or is_attempt(entry.name):
                nobodys = "it lies in nobody's folder: put it into one that is called as the student is"
                problems.append(Problem("", entry.path, entry.refused or nobodys))
        elif entry.name in NOBODY:
            why = "this is a folder of katas, not of a student's: put it into one that is called as the student is"
            problems.append(Problem("", entry.path, why))
        else:
            people, number, at = submitters.get(entry.name, ((Person(entry.name),), "", None))
            yield Named(people, Handed(entry, "", Arrival(at)), number)


Submitters = dict[str, tuple[tuple[Person, ...], str, datetime | None]]


def _submitters(top: Folder, problems: list[Problem]) -> Submitters:
    """By Gradescope's folder those who have submitted it, their numbers, and when they did."""
    import yaml

    file = top.get(GRADESCOPE)
    if not isinstance(file, File):
        return {}
    found: Submitters = {}
    try:
        metadata = yaml.load(file.content(METADATA_LIMIT), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        for folder, about in metadata.items():
            people = [_person(each, str(folder)) for each in about[":submitters"]]
            numbers = [next(filter(None, person.marks), "") for person in people]
            at = _time(about.get(":created_at"))
            if at is None and about.get(":created_at"):
                why = f"the time of {folder} is not as Gradescope writes it, so it is taken to be in time"
                problems.append(Problem("", file.path, why))
            found[str(folder)] = tuple(people) or (Person(str(folder)),), " & ".join(numbers), at
    except Unreadable as error:
        problems.append(Problem("", file.path, f"{error}; its students are called by their folders"))
    except (yaml.YAMLError, AttributeError, KeyError, TypeError, ValueError) as error:
        reason = str(error).split("\n")[0]
        why = f"it is not as Gradescope writes it ({shown(reason)}), so some students are called by their folders"
        problems.append(Problem("", file.path, why))
    return found


def _person(about: Any, folder: str) -> Person:
    name, number, email = (str(about.get(key) or "") for key in (":name", ":sid", ":email"))
    return Person(name or email or number or folder, (number, email))


def _time(value: object) -> datetime | None:
    """Gradescope's time, which YAML may have read already; without a zone it is UTC."""
    try:
        at = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _twins(found: Shares) -> list[Problem]:
    """A word about students whose names differ in capitals alone: they are two, but may be meant to be one."""
    first: dict[str, str] = {}
    return [
        Problem(
            name, found[name][0].entry.path, f"'{name}' and '{other}' are two students here; rename one if they are not"
        )
        for name in sorted(found)
        if (other := first.setdefault(name.casefold(), name)) != name
    ]
