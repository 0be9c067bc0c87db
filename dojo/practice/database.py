"""The history database: every grade, mock, drill, hunt and review of this user, its text, answers and help.

It is also what knows what was solved.
Nothing here may keep a verdict from its reader: `remember` answers with a sentence when it could not write.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from dojo.content.catalog import Trouble
from dojo.verdict.types import PASSED, SOLVED, Outcome, state_of

VERSION = 3
PATIENCE = 5.0  # seconds to wait for another grading that writes just now

TABLES = {  # by the version that brought them
    1: """
create table attempt (
    id integer primary key,
    at real not null,            -- seconds since 1970, UTC
    kata text not null,
    kind text not null,          -- grade, mock, drill, hunt or review
    verdict text not null,
    tiers text not null,         -- JSON: tier to passed or failed
    failing text not null,       -- JSON: list of {name, tier, outcome, diagnosis}
    seconds real not null,       -- of grading
    spent real,                  -- seconds a mock, hunt or review had taken by then
    hints integer not null,      -- taken by then
    text text not null,          -- of the attempt
    details text not null        -- JSON: the whole verdict, with pictures
);
create index by_kata on attempt (kata, at);
""",
    2: """
create table answer (
    id integer primary key,
    at real not null,            -- seconds since 1970, UTC
    kata text not null,
    question text not null,      -- as its master words it
    rating text not null,        -- again, hard, good or easy, by who answered
    seconds real not null,       -- from the question to the points
    text text not null           -- as typed; nothing where it was said aloud
);
""",
    3: """
alter table attempt add column shown integer not null default 0;
create table help (
    at real not null,            -- seconds since 1970, UTC
    kata text not null,
    kind text not null,          -- hint, solution, or fresh for a fresh stub
    number integer not null      -- of the hint, from 1; else 0
);
""",
}


class Unreadable(Trouble):
    """The database cannot be used; the message says why, where it is and what to do."""


class Aid(NamedTuple):
    """The help that an attempt had: how many hints, and whether the solution had been shown."""

    hints: int = 0
    shown: bool = False

    @property
    def words(self) -> str:
        """As it follows "passed"; nothing without help."""
        with_hints = f"with {self.hints} hint{'s' * (self.hints != 1)}" if self.hints else ""
        return "after the solution was shown" if self.shown else with_hints


@dataclass(frozen=True)
class Attempt:
    """One grading of one kata, as it is remembered."""

    at: float
    kata: str
    kind: str
    verdict: str
    tiers: dict[str, str]
    failing: list[dict[str, Any]]
    seconds: float
    spent: float | None
    hints: int
    text: str
    details: dict[str, Any] = field(default_factory=dict)
    id: int | None = None
    shown: bool = False  # the solution, by then

    @property
    def passed(self) -> bool:
        return self.verdict == PASSED

    @property
    def word(self) -> str:
        """The verdict as it is shown."""
        return state_of(self.verdict, self.tiers)

    @property
    def solved(self) -> bool:
        """Whether it was right, or passed."""
        return self.word in SOLVED

    @property
    def aid(self) -> Aid:
        return Aid(self.hints, self.shown)


@dataclass(frozen=True)
class Answer:
    """One answer to a question of an interviewer, as its owner rated it."""

    at: float
    kata: str
    question: str
    rating: str
    seconds: float
    text: str = ""


@dataclass(frozen=True)
class Help:
    """A hint that was taken, the solution that was shown, or a fresh stub, by which help may cease to count."""

    at: float
    kata: str
    kind: str
    number: int = 0  # of the hint


HINT, SOLUTION, FRESH = "hint", "solution", "fresh"
HANDED_OUT = ("hunt", "review")  # kinds whose program was handed out: they count neither for nor against a kata
RATINGS = ("again", "hard", "good", "easy")
COLUMNS = [f.name for f in fields(Attempt)]
ANSWER_COLUMNS = [f.name for f in fields(Answer)]
HELP_COLUMNS = [f.name for f in fields(Help)]
LAST = "select id from (select id, max(at) from attempt group by kata, kind, verdict)"
BRIEF = {"failing": "'[]'", "details": "'{}'", "text": f"case when id in ({LAST}) then text else '' end"}
JSON = ("tiers", "failing", "details")

COUNT = """
select attempt.id, json_extract(check_.value, '$.tier'),
       sum(json_extract(check_.value, '$.outcome') in ({0})), count(*)
from attempt, json_each(case when json_valid(details) then details else '{{}}' end, '$.checks') as check_
where attempt.id in (select value from json_each(?)) group by 1, 2
"""


def home() -> Path:
    """The folder for what we remember: DOJO_HOME, or the user's data folder."""
    if os.environ.get("DOJO_HOME"):
        return Path(os.environ["DOJO_HOME"])
    from platformdirs import user_data_path

    return user_data_path("dojo", appauthor=False)


def place() -> Path:
    """Where the database is."""
    return home() / "attempts.sqlite"


def remember(
    attempts: Iterable[Attempt] = (), answers: Iterable[Answer] = (), helps: Iterable[Help] = ()
) -> str | None:
    """Write all of it down, or nothing; returns None, or a sentence that says why it could not be done."""
    rows = {
        "attempt": (COLUMNS, [_row(attempt) for attempt in attempts]),
        "answer": (ANSWER_COLUMNS, [*map(astuple, answers)]),
        "help": (HELP_COLUMNS, [*map(astuple, helps)]),
    }
    try:
        with _open(write=True) as database:
            for table, (columns, values) in rows.items():
                marks = ", ".join("?" * len(columns))
                database.executemany(f"insert into {table} ({', '.join(columns)}) values ({marks})", values)
    except Unreadable as trouble:
        return f"not recorded: {trouble}"
    return None


def note(attempts: Iterable[Attempt] = (), answers: Iterable[Answer] = (), helps: Iterable[Help] = ()) -> None:
    """Write all of it down; a trouble is told and stops nothing."""
    if trouble := remember(attempts, answers, helps):
        print(f"dojo: {trouble}", file=sys.stderr)


def answers() -> list[Answer]:
    """Every answer, oldest first. Raises Unreadable."""
    return [Answer(*row) for row in _rows("answer", ANSWER_COLUMNS, since=2)]


def helps(kata: str | None = None) -> list[Help]:
    """All help, or that with one kata, oldest first. Raises Unreadable."""
    return [Help(*row) for row in _rows("help", HELP_COLUMNS, kata, since=3)]


def recall_all(kata: str | None = None) -> list[Attempt]:
    """Everything remembered, or all of one kata, oldest first. Raises Unreadable."""
    return [_attempt(row) for row in _rows("attempt", COLUMNS, kata)]


def recall_brief() -> list[Attempt]:
    """Everything remembered, oldest first, and quickly: without checks and pictures, and with the text of the last
    attempt of each kata, kind and verdict alone. Raises Unreadable.
    """
    return [_attempt(row) for row in _rows("attempt", [BRIEF.get(name, name) for name in COLUMNS])]


def scores(attempts: Iterable[Attempt]) -> dict[int, dict[str, str]]:
    """By attempt and tier, as 9/18, how many of the checks let it pass; nothing of an attempt without checks.

    The database counts, so that no picture is read. Raises Unreadable.
    """
    ids = [attempt.id for attempt in attempts if attempt.id is not None]
    good = ", ".join(f"'{outcome}'" for outcome in Outcome if outcome.harmless)
    found: dict[int, dict[str, str]] = {}
    if ids:
        with _open() as database:
            for number, tier, passed, count in database.execute(COUNT.format(good), (json.dumps(ids),)):
                found.setdefault(number, {})[tier] = f"{passed}/{count}"
    return found


def _rows(table: str, columns: list[str], kata: str | None = None, since: int = 0) -> list[tuple]:
    """What a table says of one kata or of all, oldest first; nothing if the database is of before its version."""
    if not place().exists() or not place().stat().st_size:
        return []
    with _open() as database:
        version = _version(database)
        if version < since:
            return []
        what = ", ".join("0" if column == "shown" and version < 3 else column for column in columns)
        where, words = ("where kata = ?", (kata,)) if kata else ("", ())
        return database.execute(f"select {what} from {table} {where} order by at, rowid", words).fetchall()


def _version(database: sqlite3.Connection) -> int:
    version: int = database.execute("pragma user_version").fetchone()[0]
    return version


@contextmanager
def _open(write: bool = False) -> Iterator[sqlite3.Connection]:
    path = place()
    try:
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=PATIENCE)) as database:
            version = _version(database)
            if version > VERSION:
                raise Unreadable(
                    f"{path} was made by a newer dojo (format {version}, this one knows {VERSION}): update"
                )
            if write:
                database.execute("pragma journal_mode = wal")
                database.execute("pragma synchronous = full")
                with database:  # one transaction: a crash leaves all of it or nothing
                    database.execute("begin immediate")
                    had = _version(database)
                    for statement in (s for v, table in TABLES.items() if v > had for s in table.split(";\n")):
                        database.execute(statement)
                    database.execute(f"pragma user_version = {VERSION}")
                    yield database
            else:
                yield database
    except sqlite3.DatabaseError as error:
        remedy = "is it full or read-only? DOJO_HOME names another folder"
        if "not a database" in str(error) or "malformed" in str(error):
            remedy = "move the file away, and a new one is begun; what can be read of it is not touched"
        raise Unreadable(f"{path}: {error}; {remedy}") from None
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}; DOJO_HOME names another folder") from None


def _row(attempt: Attempt) -> tuple[Any, ...]:
    values = asdict(attempt)
    return tuple(json.dumps(values[name]) if name in JSON else values[name] for name in COLUMNS)


def _attempt(row: tuple) -> Attempt:
    values = dict(zip(COLUMNS, row, strict=True))
    return Attempt(**values | {name: json.loads(values[name]) for name in JSON} | {"shown": bool(values["shown"])})
