"""The database of a cohort, `cohort.sqlite`: what was handed in and what came of it, written as it comes.

A result is good for as long as the content, the kata, its grader, torch, the seed and the device are the same. What
has none, or none that is good, is what a run grades; so the same command goes on after Ctrl-C, a crash or a reboot.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dojo.cohort.records import Brief, Problem, Result, Submitted
from dojo.content import proofs
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
    verdict text not null,       -- JSON
    for_a_person text not null, gradings integer not null, seconds real not null, at real not null,
    primary key (student, kata));
create table if not exists picture (  -- of failed checks, as JSON by check: the larger part of a verdict
    student text, kata text, pictures text not null,
    primary key (student, kata));
create table if not exists prints (
    kata text, digest text,      -- of the attempt's text
    version text not null,       -- of what else they hang on
    prints blob not null,
    primary key (kata, digest));
create table if not exists told (student text primary key, state text not null);  -- what their feedback says
"""


@dataclass(frozen=True)
class Terms:
    """What is the same for everybody."""

    seed: int
    device: str = "cpu"
    torch: str = ""
    attempt_limit: float = 180.0  # seconds by the clock that one grading of one attempt may take
    submission_limit: float = 1800.0  # and all gradings of one student

    def digest_of(self, digest: str, kata: Kata) -> str:
        """The digest of all that a verdict hangs on, `digest` being that of the attempt's text."""
        parts = (digest, kata.name, grader_version(kata), self.torch, str(self.seed), self.device)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


@cache
def grader_version(kata: Kata) -> str:
    """A digest of the files that decide about this kata."""
    found = hashlib.sha256()
    rooms = (path for room in ROOMS for path in sorted((Path(__file__).parents[1] / room).rglob("*.py")))
    for path in (*proofs.files(kata), kata.master, *rooms):
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
        with self.connection as connection:  # what begins within is written at the end, or not at all
            connection.execute("begin immediate")
            connection.execute("delete from submitted")
            connection.execute("delete from problem")
            rows = ((e.student, e.kata, e.path, e.digest, e.source, json.dumps(e.others)) for e in submitted)
            connection.executemany("insert or replace into submitted values (?, ?, ?, ?, ?, ?)", rows)
            problem_rows = ((each.student, each.path, each.why) for each in problems)
            connection.executemany("insert into problem values (?, ?, ?)", problem_rows)
            connection.execute("delete from prints where digest not in (select digest from submitted)")

    def pending(self, katas: dict[str, Kata], terms: Terms, again: Iterable[str] = ()) -> list[tuple[str, str]]:
        """(student, kata) of what has no good result, by kata, so that oracles are shared; `again` names students."""
        wanted, found = set(again), []
        rows = self.connection.execute(
            "select s.student, s.kata, s.digest, r.terms from submitted s left join result r using (student, kata) "
            "order by s.kata, s.student"
        )
        for student, name, digest, good in rows:
            if name in katas and (student in wanted or good != terms.digest_of(digest, katas[name])):
                found.append((student, name))
        return found

    def submitted(self, student: str, kata: str) -> Submitted:
        """One attempt with its text."""
        words = "select student, kata, path, source, others from submitted where student = ? and kata = ?"
        ((name, of, path, source, others),) = self.connection.execute(words, (student, kata))
        return Submitted(name, of, path, source, json.loads(others))

    def put(self, result: Result, terms: str, version: str = "") -> None:
        """Remember what came of an attempt, in place of what came of it before.

        `version` is that of the result's fingerprints, which are kept where there are any.
        """
        one, (verdict, pictures) = result.submitted, _apart(result.verdict)
        row = (one.student, one.kata, terms, json.dumps(verdict), result.for_a_person)
        values = (*row, result.gradings, result.seconds, time.time())
        with self.connection as connection:
            connection.execute("begin immediate")
            connection.execute("insert or replace into result values (?, ?, ?, ?, ?, ?, ?, ?)", values)
            connection.execute("delete from picture where student = ? and kata = ?", row[:2])
            if pictures:
                connection.execute("insert into picture values (?, ?, ?)", (*row[:2], json.dumps(pictures)))
            if result.prints:
                self.keep_prints(one, version, result.prints)

    def results(self, katas: Iterable[str], student: str | None = None) -> Iterator[Result]:
        """What is known of these katas and is still handed in, by student and kata; of one student, or of all."""
        words = (
            "select s.student, s.kata, s.path, s.source, p.pictures, r.verdict, r.for_a_person, r.gradings, r.seconds "
            "from submitted s join result r using (student, kata) left join picture p using (student, kata) "
            "where ? is null or s.student = ? order by s.student, s.kata"
        )
        wanted = set(katas)
        for name, kata, path, source, pictures, text, *rest in self.connection.execute(words, (student, student)):
            if kata in wanted:
                verdict = _together(json.loads(text), json.loads(pictures or "{}"))
                yield Result(Submitted(name, kata, path, source), verdict, *rest)

    def briefly(self, katas: Iterable[str]) -> Iterator[Result]:
        """The same of everybody, without texts and as `Brief` makes it."""
        words = (
            "select s.student, s.kata, s.path, r.verdict, r.for_a_person, r.gradings, r.seconds "
            "from submitted s join result r using (student, kata) order by s.student, s.kata"
        )
        wanted, brief = set(katas), Brief()
        for student, kata, path, verdict, *rest in self.connection.execute(words):
            if kata in wanted:
                yield Result(Submitted(student, kata, path, ""), brief.shorten(json.loads(verdict)), *rest)

    def keep_prints(self, of: Submitted, version: str, prints: bytes) -> None:
        """Remember an attempt's fingerprints, made by this version of what makes them."""
        row = (of.kata, of.digest, version, prints)
        self.connection.execute("insert or replace into prints values (?, ?, ?, ?)", row)

    def prints(self, versions: Mapping[str, str]) -> Iterator[tuple[str, str, bytes | None]]:
        """(kata, student, fingerprints) of what has a result, by kata; None where no such version of them is kept."""
        words = (
            "select s.kata, s.student, p.version, p.prints from submitted s join result r using (student, kata) "
            "left join prints p using (kata, digest) order by s.kata, s.student"
        )
        for kata, student, version, prints in self.connection.execute(words).fetchall():
            if kata in versions:
                yield kata, student, prints if version == versions[kata] else None

    def states(self, katas: Iterable[str]) -> dict[str, str]:
        """What a student's feedback hangs on, as a digest for each student: their results and problems."""
        wanted, parts = set(katas), dict[str, list[Any]]()
        results = "select student, kata, path, terms, at from submitted join result using (student, kata) order by 1, 2"
        problems = "select student, path, why from problem order by 1, 2, 3"
        for student, *rest in self.connection.execute(results):
            if rest[0] in wanted:
                parts.setdefault(student, []).append(rest)
        for student, *rest in self.connection.execute(problems):
            parts.setdefault(student, []).append(rest)
        return {student: hashlib.sha256(json.dumps(each).encode()).hexdigest() for student, each in parts.items()}

    def feedback_states(self) -> dict[str, str]:
        """The state of each student when their feedback was written."""
        return dict(self.connection.execute("select student, state from told"))

    def remember_feedback(self, states: Mapping[str, str]) -> None:
        """Remember these."""
        with self.connection as connection:
            connection.execute("begin immediate")
            connection.executemany("insert or replace into told values (?, ?)", states.items())

    def problems(self) -> list[Problem]:
        """What could not be read, by name."""
        return [Problem(*row) for row in self.connection.execute("select * from problem order by student, path")]


def _apart(verdict: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A verdict without pictures, and the pictures by check."""
    checks = verdict.get("checks", [])
    pictures = {check["name"]: check["picture"] for check in checks if "picture" in check}
    if not pictures:
        return verdict, {}
    bare = [{key: value for key, value in check.items() if key != "picture"} for check in checks]
    return verdict | {"checks": bare}, pictures


def _together(verdict: dict[str, Any], pictures: dict[str, Any]) -> dict[str, Any]:
    for check in verdict.get("checks", []):
        if check["name"] in pictures:
            check["picture"] = pictures[check["name"]]
    return verdict
