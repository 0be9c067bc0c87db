"""`cohort`, as a teacher runs it: a class of few, stopped and killed on the way."""

from __future__ import annotations

import csv
import itertools
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dojo.cohort import command, engine
from dojo.cohort.records import Submitted
from dojo.cohort.store import Store, Terms
from dojo.content import catalog
from dojo.content.catalog import ROOT
from tests.cohort.test_engine import FakeEngine, passed

SOFTMAX = catalog.katas()["softmax"].master.read_text("utf-8")
WRONG = SOFTMAX.replace(".amax(", ".amin(")


@pytest.fixture
def handed_in(tmp_path: Path) -> Path:
    for name, source in {"ada": SOFTMAX, "bob": WRONG, "eve": "while True: pass\n", "zoë": SOFTMAX}.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "softmax.py").write_text(source, "utf-8")
    return tmp_path / "in"


def started(*words: object) -> subprocess.Popen[str]:
    line = [sys.executable, "-m", "dojo", "cohort", *map(str, words), "--katas", "softmax", "--no-sandbox"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(line, cwd=ROOT, start_new_session=True, env=os.environ | {"COLUMNS": "100"}, **pipes)


def count(database: Path) -> int:
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            return connection.execute("select count(*) from result").fetchone()[0]
    except sqlite3.Error:
        return 0


def stopped_by(number: int, folder: Path, *words: object) -> str:
    """What the command says when this signal reaches it after one more result."""
    before, running = count(folder / "cohort.sqlite"), started(*words)
    until = time.monotonic() + 60
    while count(folder / "cohort.sqlite") == before and running.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    running.send_signal(number)
    return running.communicate(timeout=60)[0]


@pytest.mark.proof
def test_a_class_that_is_stopped_and_killed_on_the_way_is_graded_whole(handed_in: Path, tmp_path: Path) -> None:
    out = tmp_path / "results"
    words = (handed_in, "--out", out, "--workers", 1)
    assert "the same command grades the rest" in stopped_by(signal.SIGINT, out, *words)
    first = count(out / "cohort.sqlite")
    assert 0 < first < 4
    stopped_by(signal.SIGKILL, out, *words)
    running = started(*words)
    said, _ = running.communicate(timeout=120)
    assert running.returncode == 0, said
    assert "4 attempts of 4 students: 2 right, 2 of them passed" in said
    rows = list(csv.DictReader((out / "results.csv").read_text("utf-8-sig").splitlines()))
    verdicts = {row["student"]: row["verdict"] for row in rows}
    assert verdicts == {"ada": "passed", "bob": "wrong", "eve": "broken", "zoë": "passed"}
    assert (out / "feedback" / "zoë.html").exists()

    again = started(*words)
    assert "everything handed in has a result" in again.communicate(timeout=60)[0]


def test_a_seed_is_committed_to_before_it_is_told(
    tmp_path: Path, handed_in: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "secret"
    running = started(handed_in, "--out", tmp_path / "results", "--seed-from", secret)
    said, _ = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert not (tmp_path / "results").exists()
    told = secret.read_text("utf-8").strip()
    assert told not in said
    assert command._commitment(told) in said
    assert re.search(r"The same command|the same command", said)
    assert command._seed_of(told) == int(told[:7], 16)
    assert secret.stat().st_mode & 0o777 == 0o600
    (tmp_path / "notes").write_text("buy milk", "utf-8")
    with pytest.raises(catalog.Trouble, match="64 hexadecimal digits"):
        command._secret(tmp_path / "notes")


@pytest.mark.proof
def test_what_arrives_in_a_watched_folder_is_graded(tmp_path: Path) -> None:
    arriving, out = tmp_path / "in", tmp_path / "results"
    (arriving / "ada").mkdir(parents=True)
    (arriving / "ada" / "softmax.py").write_text(SOFTMAX, "utf-8")
    running = started("--watch", arriving, "--out", out, "--workers", 1)
    assert running.stdout is not None
    said = list(itertools.takewhile(lambda line: not line.startswith("watching"), running.stdout))
    assert "1 attempt of 1 student: 1 right, 1 of them passed\n" in said
    (arriving / "bob").mkdir()
    (arriving / "bob" / "softmax.py").write_text(WRONG, "utf-8")
    said = list(itertools.takewhile(lambda line: not line.startswith("watching"), running.stdout))
    assert "2 attempts of 2 students: 1 right, 1 of them passed\n" in said
    assert "bob" in (out / "results.csv").read_text("utf-8-sig")
    running.send_signal(signal.SIGINT)
    assert running.wait(timeout=60) == 0


@pytest.mark.proof
def test_a_course_is_read_anew_at_each_run_and_nothing_is_graded_twice_for_it(handed_in: Path, tmp_path: Path) -> None:
    (tmp_path / "handed_in.csv").write_text(
        "student,path,time\nada,in/ada/softmax.py,2026-10-14T10:00\nzoë,in/zoë/softmax.py,2026-10-17T10:00\n", "utf-8"
    )
    (tmp_path / "people.csv").write_text(
        "student,email\nAda,ada@example.org\nZoë,z@example.org\nBob,b@example.org\n", "utf-8"
    )
    (tmp_path / "decided.csv").write_text("student,kata,points,reason\n", "utf-8")
    (tmp_path / "course.toml").write_text(
        'roster = "people.csv"\ndecisions = "decided.csv"\n[default]\ncore = 10\n'
        '[deadlines]\ntimezone = "UTC"\nall = 2026-10-15\n[late]\npenalty = 0.25\n',
        "utf-8",
    )
    out = tmp_path / "results"
    words = (tmp_path / "handed_in.csv", "--out", out, "--workers", 1, "--course", tmp_path / "course.toml")

    def points() -> dict[str, str]:
        rows = csv.DictReader((out / "grades.csv").read_text("utf-8-sig").splitlines())
        return {row["student"]: row["points"] for row in rows}

    running = started(*words, "--against", handed_in)
    said, _ = running.communicate(timeout=120)
    assert running.returncode == 0, said
    assert "4 earlier attempts to compare with" in said
    assert points() == {"Ada": "10", "Bob": "0", "Zoë": "5"}
    page = (out / "alike.html").read_text("utf-8")
    assert "<bdi>Ada</bdi> and <bdi>ada (in)</bdi>: softmax, 100%" in page

    (tmp_path / "decided.csv").write_text("student,kata,points,reason\nz@example.org,softmax,7,ill\n", "utf-8")
    said, _ = started(*words).communicate(timeout=60)
    assert "everything handed in has a result" in said
    assert points() == {"Ada": "10", "Bob": "0", "Zoë": "7"}

    (tmp_path / "decided.csv").write_text("student,kata,points,reason\nEve,softmax,7,ill\n", "utf-8")
    running = started(*words)
    assert "decided.csv, line 2: nobody is called 'Eve'" in running.communicate(timeout=60)[0]
    assert running.returncode == 2


def test_a_file_dated_in_the_future_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LOOK", 0.2)
    (tmp_path / "softmax.py").write_text(SOFTMAX, "utf-8")
    os.utime(tmp_path / "softmax.py", (2e10, 2e10))
    begun = time.monotonic()
    assert command._more_has_come(tmp_path, {})
    assert time.monotonic() - begun < 5


def test_what_is_still_being_written_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "LOOK", 0.2)
    looks = list[float]()
    seen = command._seen

    def growing(where: Path) -> dict[str, tuple[int, int]]:
        if len(looks) < 4:
            (where / "softmax.py").write_text("x" * len(looks), "utf-8")
        looks.append(time.monotonic())
        return seen(where)

    monkeypatch.setattr(command, "_seen", growing)
    assert command._more_has_come(tmp_path, {})
    assert len(looks) == 5
    assert looks[-1] - looks[0] >= 4 * 0.2


def test_what_has_no_verdict_yet_is_said_and_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(engine, "PAUSE", 0.01)
    katas, terms = {"softmax": catalog.katas()["softmax"]}, Terms(1)
    lost = FakeEngine(lambda job: "the process was ended" if job.submitted.student == "bob" else passed(job))
    with Store(tmp_path / "cohort.sqlite") as store:
        store.take([Submitted(name, "softmax", name, SOFTMAX) for name in ("ada", "bob")], [])
        assert command._grade(store, katas, terms, lost, [])
        assert store.pending(katas, terms) == [("bob", "softmax")]
        said = capsys.readouterr()
        assert "1 pending, the same command grades them: bob (softmax): the process was ended" in said.err
        assert "has a result" not in said.out
        assert command._grade(store, katas, terms, FakeEngine(passed), [])
        assert store.pending(katas, terms) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name the SUBMISSIONS"),
        (("nowhere",), "there is nothing at nowhere"),
        (("{}", "--rubric", "none.toml"), "none.toml cannot be read"),
    ],
)
def test_mistakes_of_a_teacher_are_told(words: tuple[str, ...], said: str, handed_in: Path, tmp_path: Path) -> None:
    running = started(*(word.format(handed_in) for word in words), "--out", tmp_path / "results")
    assert said in running.communicate(timeout=60)[0]
    assert running.returncode == 2
