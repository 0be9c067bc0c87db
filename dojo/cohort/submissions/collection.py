"""Reads what a class has handed in: attempts, and by name what cannot be graded, which stops nothing.

A file is read once, where it lies, and nothing is followed, unpacked or changed; what is too large or too much is left.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path

from dojo.cohort.course.roster import Person, Roster
from dojo.cohort.records import Arrival, Problem, Submitted
from dojo.cohort.submissions import table
from dojo.cohort.submissions.archive import InZip, is_zip, unpacked
from dojo.cohort.submissions.layouts import owners, recognised, shares
from dojo.cohort.submissions.names import kata_of, near, shown
from dojo.cohort.submissions.student import Handed, Katas, Student
from dojo.cohort.submissions.tree import File, Folder, OnDisk, Unreadable, visible
from dojo.content.catalog import Kata, Trouble

KINDS = "a folder of folders, a CSV or JSON Lines of paths, a zip, or an export of Moodle, Canvas or Gradescope"
Class = dict[str, list[Handed]]  # by student


def collect(
    where: Path, katas: Mapping[str, Kata], roster: Roster | None = None
) -> tuple[list[Submitted], list[Problem]]:
    """The attempts at these katas that were handed in, and what cannot be graded. Raises Trouble.

    Who is on the roster is called as there, or as their group is.

    Of several files for a kata those count that are not as they were handed out. Of these there must be one, or a
    platform must say which was uploaded last. When a file was changed says nothing: zips, clones and platforms set that
    anew.
    """
    among = Katas(katas)
    submitted: list[Submitted] = []
    with ExitStack() as stack:
        try:
            handed, problems = _by_student(where, among, stack, roster or Roster())
        except Unreadable as error:
            raise Trouble(f"{where}: {error}") from None
        for name, entries in handed.items():
            student = Student(name, among)
            submitted += student.attempts(entries)
            problems += student.problems
    return sorted(submitted), sorted(problems)


def _by_student(where: Path, katas: Katas, stack: ExitStack, roster: Roster) -> tuple[Class, list[Problem]]:
    """What each has handed in, not yet looked at. Raises Unreadable and Trouble."""

    def opened(zipped: File) -> InZip:
        return unpacked(stack.enter_context(zipped.opened()), zipped.name, zipped.path)

    if not where.exists():
        raise Trouble(f"there is no {where}: name {KINDS}")
    where = where.resolve()
    top: Folder = OnDisk(where if where.is_dir() else where.parent)
    if not where.is_dir():
        file = top.get(where.name)
        if isinstance(file, File) and is_zip(file):
            top = opened(file)
        elif isinstance(file, File) and table.is_table(file):
            return _by_table(top, file, katas, roster)
        else:
            raise Trouble(f"{where} is not what a class hands in: name {KINDS}")
    inside = visible(top)
    wrapped = inside[0] if isinstance(top, InZip) and len(inside) == 1 and not isinstance(inside[0], File) else top
    for folder in (top, wrapped):
        if listed := _table(folder):
            return _by_table(folder, listed, katas, roster)
    return shares(top, opened, roster)


def _table(top: Folder) -> File | None:
    """The table at the top, if there is one; what a platform has put there, a student has written."""
    tables = [entry for entry in visible(top) if isinstance(entry, File) and table.is_table(entry)]
    if len(tables) != 1 or tables[0].refused or recognised(tables[0]):
        return None
    try:
        return tables[0] if table.rows(tables[0]) else None
    except Unreadable:
        return None


def _by_table(top: Folder, listed: File, katas: Katas, roster: Roster) -> tuple[Class, list[Problem]]:
    found: Class = defaultdict(list)
    problems = list[Problem]()
    for row in table.rows(listed):
        student = shown(row.student)
        try:
            if not student:
                raise Unreadable(f"line {row.line} of {listed.path} names no student")
            file = table.find(top, row.path)
            kata = kata_of(row.kata, katas.known) if row.kata else ""
            if kata is None:
                raise Unreadable(f"no kata is called '{shown(row.kata)}'{near(row.kata, katas.known)}")
            handed = Handed(file, kata, Arrival(_time(row, listed)))
            for unit in owners((Person(row.student),), student, file.path, roster, problems):
                found[unit].append(handed)
        except Unreadable as error:
            problems.append(Problem(student, shown(row.path), str(error)))
    return found, problems


def _time(row: table.Row, listed: File) -> datetime | None:
    try:
        return datetime.fromisoformat(row.time) if row.time else None
    except ValueError:
        message = f"line {row.line} of {listed.path}: '{shown(row.time)}' is no time"
        raise Unreadable(f"{message}: write it as 2026-10-15T23:59 or 2026-10-15T23:59+02:00") from None
