"""The history: nothing is lost, and no trouble with it keeps a verdict from its reader."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dojo.cli import main
from dojo.content import catalog
from dojo.content.catalog import Trouble
from dojo.practice import progress
from dojo.practice.database import Attempt, Help, helps, place, recall_all, remember
from dojo.practice.history import export, listing, numbered, overview, restore, take_in
from dojo.practice.schedule import plans, repetition
from tests import terminal


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def attempt(kata: str = "rope", verdict: str = "passed", at: float = 1e9, **more: object) -> Attempt:
    given = {"kind": "grade", "tiers": {"core": verdict}, "failing": [], "seconds": 1.0, "spent": None, "hints": 0}
    return Attempt(at=at, kata=kata, verdict=verdict, **given | {"text": "x = 1\n"} | more)


def test_what_is_remembered_comes_back_as_it_was() -> None:
    first = attempt(text="naïve\n", failing=[{"name": "a", "diagnosis": None}], details={"checks": [1.5]}, spent=3.5)
    assert remember([first, attempt("mha")]) is None
    (found,) = recall_all("rope")
    assert found == Attempt(**first.__dict__ | {"id": found.id})
    assert [a.kata for a in recall_all()] == ["rope", "mha"]


def test_nothing_is_made_by_looking(home: Path) -> None:
    assert recall_all() == []
    assert not home.exists()


def test_two_that_write_at_once_both_get_their_turn(home: Path) -> None:
    code = (
        "from tests.test_memory import attempt; from dojo.practice import database\n"
        "for n in range(20): assert database.remember([attempt(at=float(n))]) is None"
    )
    crowd = [subprocess.Popen([sys.executable, "-c", code], cwd=catalog.ROOT, env=os.environ | {}) for _ in range(3)]
    assert [process.wait(60) for process in crowd] == [0, 0, 0]
    assert len(recall_all()) == 60


def test_a_newer_database_is_left_alone(home: Path) -> None:
    remember([attempt()])
    with sqlite3.connect(place()) as database:
        database.execute("pragma user_version = 99")
    before = place().read_bytes()
    assert "newer dojo (format 99" in remember([attempt()])
    with pytest.raises(Trouble, match="update"):
        recall_all()
    assert place().read_bytes() == before


OLD = """
create table attempt (id integer primary key, at real not null, kata text not null, kind text not null,
    verdict text not null, tiers text not null, failing text not null, seconds real not null, spent real,
    hints integer not null, text text not null, details text not null);
create index by_kata on attempt (kata, at);
pragma user_version = 1;
insert into attempt values
    (1, 1.7e9, 'rope', 'grade', 'failed', '{"core": "passed", "robust": "failed"}', '[]', 1.0, null, 0, 'x = 1', '{}'),
    (2, 1.7e9, 'sdpa', 'hunt', 'passed', '{}', '[{"name": "a", "tier": "core"}]', 1.0, 60.0, 0, 'x = 1', '{}'),
    (3, 1.6e9, 'gone', 'mock', 'passed', '{"core": "passed"}', '[]', 1.0, 60.0, 2, 'x = 1', 'null'),
    (4, 1.7e9, 'mha', 'mock', 'passed', '{"core": "passed"}', '[]', 1.0, 60.0, 2, 'x = 1', '{}');
"""


def test_a_database_of_before_opens_and_goes_on(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir()
    with sqlite3.connect(place()) as database:
        database.executescript(OLD)

    def said(*words: str) -> str:
        assert main.main([*words]) == 0
        return capsys.readouterr().out

    for first in ("mha", "rope"):
        assert " right" in said("list")
        assert f"2 of {len(catalog.katas())} solved, 1 passed" in said("list")
        assert re.search(r"grade  right +passed +failed$", said("history", "rope"), re.MULTILINE)
        assert "sdpa 1 of 1" in said("history")
        assert said("next").startswith(f"1. {first} ")
        assert f"2 of {len(catalog.katas())} solved, 1 passed" in Path(said("report").strip()).read_text()
        assert remember([attempt("mha", at=time.time())]) is None
    assert len(recall_all()) == 6


def test_an_empty_file_is_a_beginning(home: Path) -> None:
    home.mkdir()
    place().touch()
    assert recall_all() == []
    assert remember([attempt()]) is None
    assert len(recall_all()) == 1


def test_a_corrupt_file_is_named_and_left_alone(home: Path) -> None:
    home.mkdir()
    place().write_bytes(b"this is no database, but somebody may want it back" * 100)
    before = place().read_bytes()
    assert "move the file away" in remember([attempt()])
    with pytest.raises(Trouble, match=r"attempts\.sqlite"):
        recall_all()
    assert place().read_bytes() == before


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "file" / "below"))
    assert "DOJO_HOME names another folder" in remember([attempt()])


def test_a_full_disk_is_told_and_what_was_there_stays(home: Path) -> None:
    remember([attempt()])
    with sqlite3.connect(place()) as database:
        pages = database.execute("pragma page_count").fetchone()[0]
    real = sqlite3.connect

    def small(*words: object, **more: object) -> sqlite3.Connection:
        database = real(*words, **more)
        database.execute(f"pragma max_page_count = {pages}")
        return database

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", small)
        said = remember([attempt(text="y" * 100_000)])
    assert "full" in said
    assert len(recall_all()) == 1


def test_kill_in_the_middle_of_writing_loses_at_most_that_write(home: Path) -> None:
    code = (
        "from tests.test_memory import attempt; from dojo.practice import database\n"
        "import itertools\n"
        "for n in itertools.count(1):\n"
        "    database.remember([attempt(at=float(n), text='y' * 50_000)]); print(n, flush=True)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=catalog.ROOT, stdout=subprocess.PIPE, text=True)
    done = 0
    while done < 5:
        done = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    written = [int(line) for line in process.stdout.read().split()] or [done]
    process.wait()
    found = recall_all()
    assert max(done, written[-1]) <= len(found) <= max(done, written[-1]) + 1
    assert all(a.text == "y" * 50_000 for a in found)


def test_what_is_exported_comes_back_once(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = [Help(5.0, "rope", "hint", 1), Help(6.0, "rope", "solution"), Help(7.0, "rope", "fresh")]
    remember([attempt(shown=True), attempt("mha", "failed", 2e9)], helps=given)
    file = tmp_path / "all.jsonl"
    assert export(file) == (2, 0)
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "another"))
    assert take_in(file) == (2, 0, 0)
    assert take_in(file) == (0, 0, 2)
    assert helps() == given
    assert [a.shown for a in recall_all()] == [True, False]
    assert [a.kata for a in recall_all()] == ["rope", "mha"]


@pytest.mark.parametrize("line", ["{", '{"at": 1}', "[]", '"text"', "\x00"])
def test_a_line_that_is_no_attempt_is_named_and_nothing_is_taken_in(tmp_path: Path, line: str) -> None:
    remember([attempt()])
    file = tmp_path / "bad.jsonl"
    export(file)
    file.write_text(file.read_text().replace("1000000000.0", "5.0") + line + "\n")
    with pytest.raises(Trouble, match="line 2"):
        take_in(file)
    assert len(recall_all()) == 1


HOUR, DAY = 3600.0, 86400.0


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([("failed", 0, 0), ("passed", 300, 0)], "Easy"),
        ([("failed", 0, 0), ("passed", 2000, 0)], "Good"),
        ([("failed", 0, 0), ("passed", 300, 2)], "Hard"),
        ([("failed", 0, 0), ("failed", 300, 0)], "Again"),
    ],
)
def test_a_sitting_is_rated_by_pass_time_and_hints(attempts: list, expected: str) -> None:
    found = repetition.sittings([attempt(verdict=v, at=at, hints=hints) for v, at, hints in attempts])
    assert [repetition.rating(s, par=600.0) for s in found] == [expected]


def test_a_pass_after_the_solution_was_shown_is_rated_as_none() -> None:
    assert repetition.rating(repetition.sittings([attempt(at=0.0, shown=True)])[0], par=600.0) == "Again"


def test_a_long_pause_begins_another_sitting() -> None:
    found = repetition.sittings([attempt(at=0.0), attempt(at=HOUR), attempt(at=4 * HOUR)])
    assert [len(s.attempts) for s in found] == [2, 1]


def proposed(past: list[Attempt], now: datetime) -> list[plans.Due]:
    katas = catalog.katas()
    return plans.propose(katas, progress.standings(katas.values(), past, now), now)


def test_what_was_failed_comes_before_what_was_passed_and_new_ones_wait_for_their_groundwork() -> None:
    now = datetime(2026, 1, 10, tzinfo=UTC)
    ago = lambda days: (now - timedelta(days=days)).timestamp()  # noqa: E731
    past = [attempt("linear", "passed", ago(9)), attempt("softmax", "failed", ago(3))]
    names = [due.kata.name for due in proposed(past, now)]
    assert names[0] == "softmax"
    assert {"embedding", "rmsnorm"} <= set(names)
    assert not {"mha", "layernorm", "lm"} & set(names)


def test_a_kata_that_was_easy_today_is_not_due() -> None:
    now = datetime(2026, 1, 10, tzinfo=UTC)
    past = [attempt("linear", at=now.timestamp() - 60)]
    assert "linear" not in [due.kata.name for due in proposed(past, now)]
    assert progress.standings(catalog.katas().values(), past, now)["linear"].due > now + timedelta(days=1)


def test_restoring_keeps_what_was_there(project: Path) -> None:
    kata = catalog.katas(project)["alibi"]
    kata.stub.write_text("mine = 1\n")
    said = restore(kata, attempt("alibi", text="theirs = 2\n"))
    assert kata.stub.read_text() == "theirs = 2\n"
    assert (project / said.rpartition(" ")[2].rstrip(".")).read_text() == "mine = 1\n"


def test_history_lists_compares_exports_and_takes_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def history(*words: str) -> str:
        assert main.main(["history", *words]) == 0
        return capsys.readouterr().out

    assert "has no history yet" in history("rope")
    remember([attempt(text="x = 1\n"), attempt(text="x = 2\n", verdict="failed", at=2e9, spent=61.0)])
    assert "--diff 1 2` compares" in history("rope")
    assert history("rope").splitlines()[0] == "Rotary position embedding (rope): passed, wrong since"
    assert re.search(r"^  2 .* grade  wrong +failed +1\.0$", history("rope"), re.MULTILINE)  # no check is known
    assert "\n-x = 1\n+x = 2\n" in history("rope", "--diff", "1", "2")
    assert "are the same" in history("rope", "--diff", "1", "1")
    file = str(tmp_path / "all.jsonl")
    assert "2 attempts written to" in history("--export", file)
    assert "0 attempts taken in; known already: 2" in history("--import", file)
    with pytest.raises(SystemExit):
        history("--diff", "1", "2")
    assert "need the NAME" in capsys.readouterr().err


def test_next_names_what_is_due_or_when_something_will_be(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["next", "--count", "2"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("1. ")
    assert "\n2. " in shown
    assert "\n3. " not in shown
    now = time.time()
    remember([attempt(name, at=now, spent=10.0, kind="mock") for name in catalog.katas()])
    assert main.main(["next"]) == 0
    assert "nothing is due; " in capsys.readouterr().out


def test_a_number_that_is_not_in_the_list_is_told() -> None:
    with pytest.raises(Trouble, match="has 1 attempt in its history, and none of number 2"):
        numbered(catalog.katas()["rope"], [attempt()], 2)


def test_lines_tell_when_and_what() -> None:
    assert "nothing is remembered yet" in overview()
    remember([attempt(at=time.time(), hints=2)])
    assert re.search(r"^rope +passed with help +1 +1 +1  \d{4}-\d\d-\d\d \d\d:\d\d$", overview(), re.MULTILINE)
    remember([attempt("mha", "passed", kind="hunt")])
    assert "\nhunts solved, which change no state: mha 1 of 1\n" in overview()
    assert "\nmha " not in overview()


def test_a_line_of_the_history_counts_checks_minutes_and_hints() -> None:
    def checks(*tiers: tuple[str, int, int]) -> dict:
        words = [(tier, "passed" if n < good else "wrong") for tier, good, count in tiers for n in range(count)]
        return {"checks": [{"tier": tier, "outcome": outcome} for tier, outcome in words]}

    kata, now = catalog.katas()["rope"], time.time()
    remember([
        attempt(verdict="failed", at=now, details=checks(("core", 3, 6), ("robust", 9, 18), ("fast", 4, 4))),
        attempt(at=now + 90, hints=1, details=checks(("core", 6, 6), ("robust", 18, 18), ("fast", 4, 4))),
        attempt(verdict="empty", at=now + 100, kind="mock", spent=30.0, tiers={}),
        attempt(verdict="failed", at=now + 200, kind="hunt", spent=300.0, details=checks(("core", 5, 6))),
    ])  # fmt: skip
    heads, *rows = [re.sub(r"\d{4}-\S+ \S+", "", line).split() for line in listing(kata).splitlines()[2:7]]
    assert heads == ["when", "kind", "verdict", "core", "robust", "fast", "min", "help"]
    assert rows == [
        ["1", "grade", "wrong", "3/6", "9/18", "4/4"],
        ["2", "grade", "passed", "6/6", "18/18", "4/4", "1.5", "1", "hint"],
        ["3", "mock", "not", "started", "0.5"],
        ["4", "hunt", "not", "solved", "5/6", "5.0"],
    ]
    assert max(map(len, listing(kata).splitlines())) <= 80


def test_a_difference_is_coloured_on_a_terminal_alone() -> None:
    remember([attempt(text="x = [1]\n"), attempt(text="x = 2\n", at=2e9)])
    words = ["history", "rope", "--diff", "1", "2"]
    shown, _ = terminal.run(words, [], catalog.ROOT)
    assert "\x1b[31m-x = [1]\x1b[0m\r\n\x1b[32m+x = 2\x1b[0m" in shown
    plain = subprocess.run([sys.executable, "-m", "dojo", *words], cwd=catalog.ROOT, capture_output=True, text=True)
    assert "\n-x = [1]\n+x = 2\n" in plain.stdout


def test_what_a_hunt_left_is_not_brought_back_as_ones_own(project: Path) -> None:
    kata = catalog.katas(project)["alibi"]
    before = kata.stub.read_bytes()
    with pytest.raises(Trouble, match="its text is the solution"):
        restore(kata, attempt("alibi", kind="hunt"))
    assert kata.stub.read_bytes() == before


def test_a_pass_says_what_it_took_how_the_track_stands_and_what_comes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOJO_STARTED_BY", "nox")
    katas = catalog.katas()
    remember([attempt("softmax", "failed", at=1e9), attempt("softmax", at=1e9 + 400)])
    told = progress.after_pass(katas["softmax"], katas)
    assert re.fullmatch(r"7 min, par is 10 · (no|\d+) hints? · basics: 1 of 7 solved", told[0])
    assert re.fullmatch(r"  nox -s reveal -- softmax +the explained solution", told[1])
    assert re.fullmatch(r"  nox -s quiz -- softmax +what interviewers ask next", told[2])
    assert re.fullmatch(r"  nox -s show -- \w+ +the kata that comes next", told[3])
    assert max(map(len, told)) <= 80
