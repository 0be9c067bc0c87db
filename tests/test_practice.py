"""Mock interviews and watching, in real terminals."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dojo.content import catalog
from dojo.content.catalog import Trouble
from dojo.practice import database
from dojo.practice.interview import status_line, timed_session
from tests import terminal
from tests.conftest import COUNT

STUB = "import torch\n\n\ndef causal_mask(q_len, k_len=None, *, device=None):\n    "
RIGHT = (
    STUB
    + """\
k_len = q_len if k_len is None else k_len
    if not 0 <= q_len <= k_len:
        raise ValueError(f"need 0 <= q_len <= k_len, got {q_len} and {k_len}")
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(k_len - q_len)
"""
)
WRONG = RIGHT.replace(".tril(k_len - q_len)", ".tril()")
LEAVE = ("Enter shows", terminal.press(b"\x03"))  # no questions


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty memory."""
    monkeypatch.setenv("DOJO_HOME", str(tmp_path))


def newest(project: Path, kind: str) -> Path:
    """The folder of the interview that began last."""
    return max((project / kind).iterdir())


def write(project: Path, kind: str, text: str) -> Callable[..., None]:
    """Save an attempt at causal_mask in the newest interview."""
    return lambda *_: newest(project, kind).joinpath("causal_mask.py").write_text(text) and None


def test_a_mock_grades_every_save_gives_hints_and_ends_with_a_scorecard(project: Path) -> None:
    stub = (project / "katas" / "attention" / "causal_mask.py").read_bytes()

    steps = [
        ("from now", write(project, "mocks", WRONG)),
        ("just this", terminal.press(b"h\n")),
        ("hint 1 of", terminal.after(1.1, write(project, "mocks", RIGHT))),  # red for less than a second is not told
        LEAVE,
    ]
    shown, status = terminal.run(["mock", "causal_mask", "--minutes", "3"], steps, project)
    assert status == 0, shown
    for words in (
        "the causal corner at the top left",
        "everything passes",
        "hints              1 of 3",
        "of par (5 min)",
    ):
        assert words in shown
    assert "failed longest" in shown
    assert (project / "katas" / "attention" / "causal_mask.py").read_bytes() == stub
    (attempt,) = database.recall_all("causal_mask")
    assert (attempt.kind, attempt.verdict, attempt.hints, attempt.text) == ("mock", "passed", 1, RIGHT)
    counted = f"{PASSED}, 1 with help"
    assert told(project, "causal_mask") == (counted, counted, "passed with help", True)


def dojo(project: Path, *words: str) -> str:
    """What a command says."""
    command = [sys.executable, "-m", "dojo", *words]
    return subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60, check=False).stdout


def each(project: Path, *commands: str) -> list[str]:
    """What commands say, one after the other in one process: to start costs more than most of them."""
    call = "from sys import argv\nfrom dojo.cli.main import main\nfor words in argv[1:]:"
    run = f"{call}\n    main(words.split())\n    print(end='\\f')"
    command = [sys.executable, "-c", run, *commands]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300, check=True)
    return done.stdout.split("\f")[:-1]


NONE, PASSED = f"0 of {COUNT} solved", f"1 of {COUNT} solved, 1 passed"
STATES = ("not started", "passed", "passed with help", "passed, wrong since")


def told(project: Path, name: str) -> tuple[str, str, str, bool]:
    """What list and report count as solved, the state in the row of a kata, and whether its solution is shown."""
    listed, report, revealed = each(project, "list", "report", f"reveal {name}")
    row = next(line for line in listed.splitlines() if re.search(rf"\b{name}\b", line))
    page = Path(report.strip()).read_text()
    words = max((state for state in STATES if row.rstrip().endswith(state)), key=len)
    assert re.search(rf">{name}</th>\s*<td><span class=\"\w*\">{words}</span>", page)
    counts = (
        re.search(rf"\d+ of {COUNT} solved(, \d+ (passed|wrong since|with help))*", listed)[0],
        re.search("<h2>(.*?)</h2>", page)[1],
    )
    return *counts, words, "not passed yet" not in revealed


def remember(kata: str, kind: str, *verdicts: str) -> None:
    """Gradings of today, one after the other."""
    for verdict in verdicts:
        given = {"tiers": {"core": verdict}, "failing": [], "seconds": 1.0, "spent": None, "hints": 0, "text": "x\n"}
        assert (
            database.remember([database.Attempt(at=time.time(), kata=kata, kind=kind, verdict=verdict, **given)])
            is None
        )


@pytest.mark.parametrize("kind", ["grade", "mock"])
def test_every_command_knows_a_pass(project: Path, kind: str) -> None:
    remember("causal_mask", kind, "failed", "passed")
    assert told(project, "causal_mask") == (PASSED, PASSED, "passed", True)
    assert "alibi" in dojo(project, "next", "--count", str(COUNT))


@pytest.mark.parametrize("verdict", ["passed", "failed"])
def test_no_command_counts_a_hunt(project: Path, verdict: str) -> None:
    remember("causal_mask", "hunt", verdict)
    assert told(project, "causal_mask") == (NONE, NONE, "not started", False)
    assert "alibi" not in dojo(project, "next", "--count", str(COUNT))
    assert "causal_mask 1 of 1" in (database.home() / "report.html").read_text() or verdict == "failed"
    remember("causal_mask", "grade", "passed")
    remember("causal_mask", "hunt", verdict)
    assert told(project, "causal_mask") == (PASSED, PASSED, "passed", True)


def test_every_command_tells_of_failures_after_a_pass(project: Path) -> None:
    remember("mha", "grade", "passed", *5 * ["failed"])
    counted = f"{PASSED}, 1 wrong since"
    assert told(project, "mha") == (counted, counted, "passed, wrong since", True)
    assert dojo(project, "next").startswith("1. mha ")


def test_the_deadline_ends_a_mock_and_the_last_saved_file_counts(project: Path) -> None:
    steps = [("from now", write(project, "mocks", WRONG)), LEAVE]
    shown, status = terminal.run(["mock", "causal_mask", "--minutes", "0.06", "--no-record"], steps, project)
    assert status == 1
    assert "the time is up" in shown
    assert "verdict            wrong" in shown
    assert database.recall_all() == []


@pytest.mark.parametrize(
    "cut",
    [
        pytest.param(terminal.press(b"\x03"), id="Ctrl-C"),
        pytest.param(terminal.after(4, terminal.kill), id="power cut", marks=pytest.mark.proof),
    ],
)
def test_a_mock_that_was_cut_off_goes_on_with_the_time_that_was_left(project: Path, cut) -> None:
    terminal.run(["mock", "causal_mask", "--minutes", "2"], [("left · causal_mask", cut)], project)
    held = timed_session.load(newest(project, "mocks"))
    assert held.end is timed_session.End.OPEN
    assert 0 < held.spent < 30
    folder = str(newest(project, "mocks"))
    shown, _ = terminal.run(["mock", "--resume", folder], [("from now", terminal.press(b"q\n")), LEAVE], project)
    assert "ended by you" in shown
    assert timed_session.load(newest(project, "mocks")).spent > held.spent
    assert "is over" in terminal.run(["mock", "--resume", folder], [], project)[0]


def test_watch_grades_every_save_and_loses_nothing(project: Path) -> None:
    stub = project / "katas" / "attention" / "causal_mask.py"
    before = stub.read_bytes()
    work = before.replace(b"raise NotImplementedError", b"return torch.ones(q_len, k_len or q_len).tril().bool()")
    try:
        steps = [
            ("not started", lambda *_: stub.write_bytes(work) and None),
            ("causal_mask: \x1b[0m\x1b[1;31mwrong", terminal.press(b"\x03")),
        ]
        shown, status = terminal.run(["watch", "causal_mask"], steps, project)
    finally:
        stub.write_bytes(before)
    assert status == 1
    assert "s after the save" in shown
    assert database.recall_all("causal_mask")[-1].text == work.decode()


@pytest.mark.parametrize("width", [30, 79, 140])
@pytest.mark.parametrize("count", [1, 3, 24])
def test_the_status_line_of_a_session_fits(width: int, count: int) -> None:
    names = sorted(catalog.katas(), key=len, reverse=True)[:count]
    session = timed_session.TimedSession(Path(), "mock", names, 5999.0)
    line = status_line.status(session, False, width)
    assert len(line) <= width
    assert line.startswith("99:59 left")
    scores = {"core": "10/12", "robust": "23/24", "fast": "4/4"}
    session.events = [timed_session.Event(9.0, names[0], "failed", {}, 1, 2, [], scores)]
    line = status_line.status(session, False, width)
    assert len(line) <= width
    if width > 30:
        assert names[0] in line
        assert "10/12" in line
    session.events = [timed_session.Event(9.0, names[0], "empty", {}, 0, 0)]
    assert "empty" not in status_line.status(session, False, width)


def test_a_session_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / timed_session.STATE).write_text("{")
    with pytest.raises(Trouble, match="no session that can be read"):
        timed_session.load(tmp_path)
