"""Who is in a course: names, numbers, e-mail and groups, and whose the name on a submission is.

A roster is a CSV. Its columns may also be called as in Canvas's gradebook export (Student, ID, SIS User ID, SIS Login
ID, Section) and in Gradescope's roster (Name or First Name and Last Name, SID, Email), so that such a file is one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from dojo.cohort.course import reading

EXAMPLE = "student,number,email,group"
SYNONYMS = {
    **{"name": "student", "full name": "student", "first": "first name", "last": "last name"},
    **{"sid": "number", "sis user id": "number", "id number": "number", "student number": "number"},
    **{"e-mail": "email", "email address": "email", "sis login id": "login", "id": "canvas", "sections": "section"},
}
NOBODY = ("points possible", "student, test", "test student")  # rows of Canvas's that are nobody's


@dataclass(frozen=True)
class Member:
    """Somebody in the course; what is not known is empty."""

    name: str  # as results call them: no two are the same
    number: str = ""
    email: str = ""
    login: str = ""
    canvas: str = ""  # Canvas's own number, which its exports have in the names of files
    section: str = ""
    group: str = ""

    @property
    def unit(self) -> str:
        """Under whose name they hand in: their group's, or their own."""
        return self.group or self.name


@dataclass(frozen=True)
class Person:
    """Whoever a platform or a teacher says has handed in: a name, and what is surer than a name."""

    name: str
    marks: tuple[str, ...] = ()  # a number, an e-mail address, `canvas:12`


@dataclass(frozen=True)
class Roster:
    """Everybody in the course. An empty one knows nobody and takes everybody for what they are called."""

    members: tuple[Member, ...] = ()
    path: Path | None = field(default=None, compare=False)

    @cached_property
    def by_name(self) -> dict[str, Member]:
        return {each.name: each for each in self.members}

    @cached_property
    def by_unit(self) -> dict[str, tuple[str, ...]]:
        """The members of each group, and everybody in none by themselves."""
        found: dict[str, tuple[str, ...]] = {}
        for each in self.members:
            found[each.unit] = (*found.get(each.unit, ()), each.name)
        return found

    def members_of(self, unit: str) -> tuple[str, ...]:
        """The students that a submission of this name counts for."""
        return self.by_unit.get(unit, (unit,))

    def units_of(self, student: str) -> tuple[str, ...]:
        """The names under which submissions count for a student: their own, and their group's."""
        member = self.by_name.get(student)
        return (student, member.group) if member and member.group else (student,)

    def unit_of(self, person: Person) -> str | None:
        """Under which name somebody hands in; None for who is not on the roster, or may be one of several."""
        for mark in filter(None, map(_folded, person.marks)):
            if len(units := self._marks.get(mark, ())) == 1:
                return next(iter(units))
        for key in (_folded(person.name), f"letters:{_letters(person.name)}"):
            for index in (self._marks, self._names):
                if len(units := index.get(key, ())) == 1:
                    return next(iter(units))
        return None

    def named(self, word: str, others: Iterable[str] = ()) -> tuple[str, ...]:
        """The students that a teacher means by a name, a number, an e-mail address or a group; nobody is ()."""
        wanted = _folded(word)
        exact = [each.name for each in self.members if wanted in map(_folded, _marks(each))]
        if len(exact) != 1:
            exact = [each.name for each in self.members if wanted == _folded(each.name)]
        if len(exact) == 1:
            return (exact[0],)
        unit = self.unit_of(Person(word))
        if unit is not None:
            return self.members_of(unit)
        return tuple(name for name in dict.fromkeys(others) if _folded(name) == wanted)[:1]

    @cached_property
    def _marks(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = defaultdict(set)
        for each in self.members:
            for mark in filter(None, map(_folded, _marks(each))):
                found[mark].add(each.unit)
        return found

    @cached_property
    def _names(self) -> dict[str, set[str]]:
        """By a name, also with the last name first and no spaces, as Canvas has it, and the front of an address."""
        found: dict[str, set[str]] = defaultdict(set)
        for each in self.members:
            words = re.findall(r"[^\s,]+", each.name)
            turns = {_letters("".join(words[at:] + words[:at])) for at in range(len(words))}
            keys = {_folded(each.name), _folded(each.email.partition("@")[0]), *(f"letters:{turn}" for turn in turns)}
            for key in keys - {"", "letters:"}:
                found[key].add(each.unit)
            if each.group:
                found[_folded(each.group)].add(each.unit)
        return found


def read(path: Path) -> Roster:
    """The roster in a CSV file. Raises Trouble with its line."""
    found = list[Member]()
    seen: dict[tuple[str, str], int] = {}
    groups: dict[str, str] = {}
    table = [row for row in reading.rows(path, (), EXAMPLE, SYNONYMS) if row.get("student").lower() not in NOBODY]
    names = Counter(map(_name, table))
    for row in table:
        name, number = _name(row), row.get("number")
        if not name:
            raise row.wrong(f"it names no student: it looks like {EXAMPLE}")
        if names[name] > 1:
            if not number:
                raise row.wrong(f"there are {names[name]} students called {name}: give each a number, in that column")
            name = f"{name} ({number})"
        group = groups.setdefault(_folded(row.get("group")), row.get("group"))  # the first spelling is the name of all
        email, login, canvas, section = map(row.get, ("email", "login", "canvas", "section"))
        member = Member(name, number, email, login, canvas, section, group)
        for column, value in (("name", name), ("number", number), ("email", member.email), ("ID", member.canvas)):
            if value and (before := seen.setdefault((column, _folded(value)), row.line)) != row.line:
                raise row.wrong(f"the {column} {value} stands in line {before} already: give everybody their own")
        found.append(member)
    if not found:
        raise reading.Row(path, 1, {}).wrong(f"there is nobody below it: it looks like {EXAMPLE}")
    own = {_folded(each.name) for each in found}
    for row in table:
        if (group := row.get("group")) and _folded(group) in own:
            raise row.wrong(f"the group {group} is called as a student is: call it something else")
    return Roster(tuple(found), path)


def _name(row: reading.Row) -> str:
    name = row.get("student") or f"{row.get('first name')} {row.get('last name')}"
    return unicodedata.normalize("NFC", " ".join(name.split()))


def _marks(member: Member) -> tuple[str, ...]:
    return (member.number, member.email, member.login, f"canvas:{member.canvas}" if member.canvas else "")


def _folded(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def _letters(text: str) -> str:
    return "".join(c for c in _folded(text) if c.isalnum())
