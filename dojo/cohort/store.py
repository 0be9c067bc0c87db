"""The database of a cohort, `cohort.sqlite`: what was handed in and what came of it, written as it comes.

A result is good for as long as the content, the kata, its grader, torch, the seed and the device are the same. What
has none, or none that is good, is what a run grades; so the same command goes on after Ctrl-C, a crash or a reboot.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dojo.cohort.records import Problem, Result, Submitted
from dojo.content.catalog import Kata, Trouble

VERSION = "1"
ROOMS = ("contracts", "grading", "judge", "verdict")  # what a verdict hangs on besides master and grader
TABLES = """
create table if not exists fact (name text primary key, value text not null);
create table if not exists submitted (
    student text, kata text, path text not null, digest text not null, source text not null,
    others text not null,        -- JSON: what it may import of the student's own, by track and name
    primary key (student, kata));
create table if not exists problem (student text not null, path text not null, why text not null);
create table if not exists result (
    student text, kata text,
    terms text not null,         -- digest of content, grader, torch, seed and device
    verdict text not null,       -- JSON, with pictures
    for_a_person text not null, gradings integer not null, seconds real not null, at real not null,
    primary key (student, kata));
"""


@dataclass(frozen=True)
class Terms:
    """What is the same for everybody."""

    seed: int
    device: str = "cpu"
    torch: str = ""
    attempt_limit: float = 180.0  # seconds by the clock that one grading of one attempt may take
    submission_limit: float = 1800.0  # and all gradings of one student

    def of(self, digest: str, kata: Kata) -> str:
        """The digest of all that a verdict hangs on, `digest` being that of the attempt's text."""
        parts = (digest, kata.name, grader_version(kata), self.torch, str(self.seed), self.device)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def grader_version(kata: Kata) -> str:
    """A digest of the files that decide about this kata."""
    found = hashlib.sha256()
    rooms = (path for room in ROOMS for path in sorted((Path(__file__).parents[1] / room).rglob("*.py")))
    for path in (kata.grader, kata.master, *rooms):
        found.update(path.read_bytes())
    return found.hexdigest()


class Store:
    """One cohort's database; `with` closes it."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.connection = sqlite3.connect(path, timeout=30.0, isolation_level=None)
            self.connection.execute("pragma journal_mode = wal")
            self.connection.executescript(TABLES)
        except sqlite3.Error as error:
            raise Trouble(f"{path} is no database of a cohort ({error}): name another folder with --out") from None
        if self.fact("version", VERSION) != VERSION:
            raise Trouble(f"{path} was written by another version of this project: name another folder with --out")

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    def fact(self, name: str, default: str) -> str:
        """What is kept under a name, which is the default from its first use on."""
        self.connection.execute("insert or ignore into fact values (?, ?)", (name, default))
        ((value,),) = self.connection.execute("select value from fact where name = ?", (name,))
        return str(value)

    def set(self, name: str, value: str) -> None:
        """Keep this under a name."""
        self.connection.execute("insert or replace into fact values (?, ?)", (name, value))

    def take(self, submitted: Iterable[Submitted], problems: Iterable[Problem]) -> None:
        """What is handed in now; what was there before and is not any more is let go."""
        with closing(self.connection.cursor()) as cursor:
            cursor.execute("begin immediate")
            cursor.execute("delete from submitted")
            cursor.execute("delete from problem")
            rows = ((e.student, e.kata, e.path, e.digest, e.source, json.dumps(e.others)) for e in submitted)
            cursor.executemany("insert or replace into submitted values (?, ?, ?, ?, ?, ?)", rows)
            told = ((each.student, each.path, each.why) for each in problems)
            cursor.executemany("insert into problem values (?, ?, ?)", told)
            cursor.execute("commit")

    def pending(self, katas: dict[str, Kata], terms: Terms, again: Iterable[str] = ()) -> list[tuple[str, str]]:
        """(student, kata) of what has no good result, by kata, so that oracles are shared; `again` names students."""
        wanted, found = set(again), []
        rows = self.connection.execute(
            "select s.student, s.kata, s.digest, r.terms from submitted s left join result r using (student, kata) "
            "order by s.kata, s.student"
        )
        for student, name, digest, good in rows:
            if name in katas and (student in wanted or good != terms.of(digest, katas[name])):
                found.append((student, name))
        return found

    def submitted(self, student: str, kata: str) -> Submitted:
        """One attempt with its text."""
        words = "select student, kata, path, source, others from submitted where student = ? and kata = ?"
        ((name, of, path, source, others),) = self.connection.execute(words, (student, kata))
        return Submitted(name, of, path, source, json.loads(others))

    def put(self, result: Result, terms: str) -> None:
        """Remember what came of an attempt, in place of what came of it before."""
        one = result.submitted
        row = (one.student, one.kata, terms, json.dumps(result.verdict), result.for_a_person)
        values = (*row, result.gradings, result.seconds, time.time())
        self.connection.execute("insert or replace into result values (?, ?, ?, ?, ?, ?, ?, ?)", values)

    def results(self, katas: Iterable[str]) -> Iterator[Result]:
        """What is known of these katas and is still handed in, by student and kata."""
        words = (
            "select s.student, s.kata, s.path, s.source, r.verdict, r.for_a_person, r.gradings, r.seconds "
            "from submitted s join result r using (student, kata) order by s.student, s.kata"
        )
        wanted = set(katas)
        for student, kata, path, source, verdict, *rest in self.connection.execute(words):
            if kata in wanted:
                yield Result(Submitted(student, kata, path, source), json.loads(verdict), *rest)

    def problems(self) -> list[Problem]:
        """What could not be read, by name."""
        return [Problem(*row) for row in self.connection.execute("select * from problem order by student, path")]
