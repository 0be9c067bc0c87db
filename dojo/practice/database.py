"""The history database: every grade, mock and hunt of this user, with the attempt's text, and answers to questions.

It is also what knows passes.
Nothing here may keep a verdict from its reader: `remember` answers with a sentence when it could not write.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, dataclass, field, fields
from pathlib import Path
from typing import Any

from dojo.content.catalog import Trouble
from dojo.verdict.types import Outcome

VERSION = 2
PATIENCE = 5.0  # seconds to wait for another grading that writes just now

TABLES = {  # by the version that brought them
    1: """
create table attempt (
    id integer primary key,
    at real not null,            -- seconds since 1970, UTC
    kata text not null,
    kind text not null,          -- grade, mock or hunt
    verdict text not null,
    tiers text not null,         -- JSON: tier to passed or failed
    failing text not null,       -- JSON: list of {name, tier, outcome, diagnosis}
    seconds real not null,       -- of grading
    spent real,                  -- seconds a mock or hunt had taken by then
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
}


class Unreadable(Trouble):
    """The database cannot be used; the message says why, where it is and what to do."""


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

    @property
    def passed(self) -> bool:
        return self.verdict == "passed"


@dataclass(frozen=True)
class Answer:
    """One answer to a question of an interviewer, as its owner rated it."""

    at: float
    kata: str
    question: str
    rating: str
    seconds: float
    text: str = ""


RATINGS = ("again", "hard", "good", "easy")
COLUMNS = [f.name for f in fields(Attempt)]
ANSWER_COLUMNS = [f.name for f in fields(Answer)]
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


def remember(attempts: Iterable[Attempt]) -> str | None:
    """Write attempts down, all or none; returns None, or a sentence that says why it could not be done."""
    return _write({"attempt": (COLUMNS, [_row(attempt) for attempt in attempts])})


def remember_answer(answer: Answer) -> str | None:
    """Write an answer down; returns None, or a sentence that says why it could not be done."""
    return _write({"answer": (ANSWER_COLUMNS, [list(astuple(answer))])})


def _write(rows: dict[str, tuple[list[str], list[list[Any]]]]) -> str | None:
    """Add rows to tables, all or none."""
    try:
        with _open(write=True) as database:
            for table, (columns, values) in rows.items():
                marks = ", ".join("?" * len(columns))
                database.executemany(f"insert into {table} ({', '.join(columns)}) values ({marks})", values)
    except Unreadable as trouble:
        return f"not recorded: {trouble}"
    return None


def answers() -> list[Answer]:
    """Every answer, oldest first. Raises Unreadable."""
    if not _begun():
        return []
    with _open() as database:
        if database.execute("pragma user_version").fetchone()[0] < 2:  # nothing has been written since
            return []
        rows = database.execute(f"select {', '.join(ANSWER_COLUMNS)} from answer order by at, id").fetchall()
    return [Answer(*row) for row in rows]


def recall_all(kata: str | None = None) -> list[Attempt]:
    """Everything remembered, or all of one kata, oldest first. Raises Unreadable."""
    return _recall(COLUMNS, kata)


def recall_brief() -> list[Attempt]:
    """Everything remembered, oldest first, and quickly: without checks and pictures, and with the text of the last
    attempt of each kata, kind and verdict alone. Raises Unreadable.
    """
    return _recall([BRIEF.get(name, name) for name in COLUMNS])


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


def export(path: Path) -> tuple[int, int]:
    """Write everything to a file of JSON Lines; returns how many attempts there were, and how many answers."""
    from dojo.content import files

    attempts, given = recall_all(), answers()
    lines = [json.dumps(asdict(a)) for a in attempts] + [json.dumps(asdict(a)) for a in given]
    files.write_atomic(path, "".join(f"{line}\n" for line in lines))
    return len(attempts), len(given)


def take_in(path: Path) -> tuple[int, int, int]:
    """Add the attempts and answers of a file of JSON Lines that are not known yet.

    Returns how many attempts and how many answers were new, and how many of both not. Raises Unreadable when a line is
    neither; then nothing is added.
    """
    known = {*map(_key, recall_all()), *map(_key, answers())}
    attempts, given, old = list[list[Any]](), list[list[Any]](), 0
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            told = json.loads(line)
            each = Answer(**told) if "question" in told else Attempt(**told | {"id": None})
            row, key = [*astuple(each)] if isinstance(each, Answer) else _row(each), _key(each)
            if isinstance(each, Answer) and each.rating not in RATINGS:
                raise ValueError(f"'{each.rating}' is no rating")
        except (ValueError, TypeError, AttributeError) as error:
            raise Unreadable(
                f"{path}, line {number}, is no attempt and no answer: {error}. Nothing was taken in."
            ) from None
        if key in known:
            old += 1
        else:
            known.add(key)
            (given if isinstance(each, Answer) else attempts).append(row)
    trouble = _write({"attempt": (COLUMNS, attempts), "answer": (ANSWER_COLUMNS, given)}) if attempts or given else None
    if trouble:
        raise Unreadable(trouble)
    return len(attempts), len(given), old


def _key(each: Attempt | Answer) -> tuple[float, str, str, str]:
    """What tells an attempt, or an answer, from every other."""
    kind = each.question if isinstance(each, Answer) else each.kind
    return float(each.at), str(each.kata), kind, each.text


def _begun() -> bool:
    return place().exists() and place().stat().st_size > 0


def _recall(columns: list[str], kata: str | None = None) -> list[Attempt]:
    if not _begun():
        return []
    with _open() as database:
        where, words = ("where kata = ?", (kata,)) if kata else ("", ())
        rows = database.execute(f"select {', '.join(columns)} from attempt {where} order by at, id", words).fetchall()
    return [_attempt(row) for row in rows]


@contextmanager
def _open(write: bool = False) -> Iterator[sqlite3.Connection]:
    path = place()
    try:
        if write:
            path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=PATIENCE)) as database:
            version = database.execute("pragma user_version").fetchone()[0]
            if version > VERSION:
                raise Unreadable(
                    f"{path} was made by a newer dojo (format {version}, this one knows {VERSION}): update"
                )
            if write:
                database.execute("pragma journal_mode = wal")
                database.execute("pragma synchronous = full")
                with database:  # one transaction: a crash leaves all of it or nothing
                    database.execute("begin immediate")
                    had = database.execute("pragma user_version").fetchone()[0]
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


def _row(attempt: Attempt) -> list[Any]:
    values = asdict(attempt)
    return [json.dumps(values[name]) if name in JSON else values[name] for name in COLUMNS]


def _attempt(row: tuple) -> Attempt:
    values = dict(zip(COLUMNS, row, strict=True))
    return Attempt(**values | {name: json.loads(values[name]) for name in JSON})
