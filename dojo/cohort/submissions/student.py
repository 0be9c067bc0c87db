"""What one student has handed in: which file is for which kata, and which of several counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path

from dojo.cohort.records import UNTOLD, Arrival, Problem, Submitted
from dojo.cohort.submissions.archive import is_zip, unpacked
from dojo.cohort.submissions.names import is_attempt, kata_of, near, shown
from dojo.cohort.submissions.tree import File, Folder, Unreadable, walk
from dojo.content import catalog, master, proofs
from dojo.content.catalog import Kata, Trouble
from dojo.content.files import digest
from dojo.grading.options import SOURCE_LIMIT, decoded

MOST_FILES = 1000  # folders among them
MOST_BYTES = 4 * SOURCE_LIMIT  # of a student's attempts together
MOST_OF_A_KATA = 8  # files
MOST_PROBLEMS = 10  # that are told one by one
LONGEST_NAME = 200  # characters


@dataclass(frozen=True)
class Handed:
    """A file or folder that a student has handed in; with a kata, where a table says which it is for."""

    entry: File | Folder
    kata: str = ""
    arrival: Arrival = UNTOLD


@dataclass(frozen=True)
class Katas:
    """The katas that are asked for, among all that there are."""

    wanted: Mapping[str, Kata]

    @cached_property
    def known(self) -> dict[str, Kata]:
        roots = {kata.root for kata in self.wanted.values()}
        return {name: kata for root in roots for name, kata in catalog.katas(root).items()} | dict(self.wanted)

    @cached_property
    def ours(self) -> dict[tuple[int, int], str]:
        """Solutions and graders, by what a hard link to them has too."""
        paths = {path: kata.say(path) for kata in self.known.values() for path in (kata.master, *proofs.files(kata))}
        states = {place: path.stat() for path, place in paths.items() if path.exists()}
        return {(state.st_dev, state.st_ino): place for place, state in states.items()}


@dataclass
class Student:
    """Reads what a student has handed in, once."""

    name: str
    katas: Katas
    problems: list[Problem] = field(default_factory=list)

    def attempts(self, handed: list[Handed]) -> list[Submitted]:
        """One a kata; what is wrong becomes a problem."""
        path, found, room = handed[0].entry.path, [], MOST_BYTES
        if len(self.name) > LONGEST_NAME:
            why = f"the student's name has more than {LONGEST_NAME} characters: give it fewer"
            self.problems = [Problem(f"{self.name[:LONGEST_NAME]}…", path, why)]
            return []
        with ExitStack() as stack:
            try:
                by_kata = self._by_kata(handed, stack)
            except Unreadable as error:
                self.problems = [Problem(self.name, path, str(error))]
                return []
            for kata, files in by_kata.items():
                if attempt := self._one(kata, files, room):
                    found.append(attempt)
                    room -= len(attempt.source)
        if len(self.problems) > MOST_PROBLEMS:
            more = f"there are {len(self.problems) - MOST_PROBLEMS} more files here that cannot be graded"
            self.problems[MOST_PROBLEMS:] = [Problem(self.name, path, more)]
        return found

    def _by_kata(self, handed: list[Handed], stack: ExitStack) -> dict[str, list[File]]:
        by_kata: dict[str, list[File]] = defaultdict(list)
        others, known = [], False
        for file, named in _files(handed, stack):
            kata = named or kata_of(file.name, self.katas.known)
            known = known or bool(kata)
            if file.refused:
                self._say(file, file.refused)
            elif kata and not named and not is_attempt(file.name):
                self._say(file, f"it is no Python file or notebook: hand in {kata}.py or {kata}.ipynb")
            elif kata and kata in self.katas.wanted:
                by_kata[kata].append(file)
            elif not kata and is_attempt(file.name) and file.name != "__init__.py":
                self._say(file, self._unknown(file.name))
            elif not kata:
                others.append(shown(file.name))
        if not known and not self.problems:
            there = f"; there is {', '.join(sorted(others)[:5])}" if others else ", for it is empty"
            self._say(handed[0].entry, f"it holds no Python file or notebook that is called as a kata is{there}")
        return by_kata

    def _unknown(self, name: str) -> str:
        meant = near(name, self.katas.wanted)
        remedy = "" if meant else ": call it as the kata is, or tell which it is in a table (student,kata,path)"
        return f"no kata is called '{shown(name.rpartition('.')[0])}'{meant}{remedy}"

    def _one(self, kata: str, files: list[File], room: int) -> Submitted | None:
        """The attempt at a kata, if the files for it leave no doubt."""
        if len(files) > MOST_OF_A_KATA:
            self._say(files[0], f"there are {len(files)} files for {kata}: keep the one that counts")
            return None
        read: dict[str, tuple[File, str]] = {}
        for file in sorted(files, key=_order):  # what was handed in again unchanged counts as it first came
            try:
                text = self._text(file, room)
                read.setdefault(_program(text) if len(files) > 1 else "", (file, text))
            except Unreadable as error:
                self._say(file, str(error))
        if len(read) > 1:  # one of script and notebook may be as it was handed out
            read.pop(_program(master.stub_text(self.katas.wanted[kata])), None)
        found = sorted(read.values(), key=lambda each: _order(each[0]))
        if len({_order(file) for file, _ in found}) < len(found):
            paths = " and ".join(file.path for file, _ in found)
            self._say(found[0][0], f"there are several files for {kata}: keep the one that counts of {paths}")
            return None
        for file, _ in found[:-1]:
            self._say(file, f"{found[-1][0].path} was uploaded after it, and counts")
        if not found:
            return None
        last, text = found[-1]
        return Submitted(self.name, kata, last.path, text, arrival=last.arrival)

    def _text(self, file: File, room: int) -> str:
        if file.inode in self.katas.ours:
            raise Unreadable(f"it is {self.katas.ours[file.inode]} by another name: there is nothing to grade")
        try:
            text = decoded(file.content(SOURCE_LIMIT), Path(file.name), "it")
            text.encode()  # JSON can hold half a character
        except Trouble as error:
            raise Unreadable(str(error)) from None
        except UnicodeEncodeError:
            raise Unreadable("it has characters that UTF-8 does not know: type them anew") from None
        if not text.strip():
            raise Unreadable("it is empty")
        if "\0" in text:
            raise Unreadable("it has zero bytes in it: save it as UTF-8")
        if len(text) > room:
            raise Unreadable(f"the attempts of this student have more than {MOST_BYTES} characters together")
        return text

    def _say(self, entry: File | Folder, why: str) -> None:
        self.problems.append(Problem(self.name, entry.path, why))


def _order(file: File) -> tuple[float, int]:
    """What says which of two files was handed in later, as far as a platform tells."""
    return file.arrival.at.timestamp() if file.arrival.at else 0.0, file.upload


def _program(text: str) -> str:
    """A hash of a program's lines but for empty ones and comments: the same for a script and its notebook."""
    lines = (line.rstrip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return digest("\n".join(lines))


def _files(handed: list[Handed], stack: ExitStack) -> Iterator[tuple[File, str]]:
    """All files of a student, and the kata that each is for where that is told. Raises Unreadable."""
    found = ((entry, each) for each in handed for entry in _entries(each, stack))
    for count, (entry, own) in enumerate(islice(found, MOST_FILES + 1)):
        if count == MOST_FILES:
            raise Unreadable(f"it has more than {MOST_FILES} files: hand in the katas' files alone")
        if isinstance(entry, File):
            yield replace(entry, arrival=own.arrival), own.kata


def _entries(handed: Handed, stack: ExitStack) -> Iterator[File | Folder]:
    """What is handed in and what lies in it, also in zips, but not in zips in zips."""
    for entry in walk(handed.entry):
        if not is_zip(entry) or entry.refused:
            yield entry
            continue
        try:
            inside = unpacked(stack.enter_context(entry.opened()), entry.name, entry.path)
        except Unreadable as error:
            yield replace(entry, refused=str(error))
            continue
        for each in walk(inside):
            yield replace(each, refused="it is a zip in a zip: zip it once") if is_zip(each) else each
