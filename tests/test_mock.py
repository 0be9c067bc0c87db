"""Mock interviews as they are held: silent saves, questions after the code, loops with breaks, the scorecard."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from dojo.content import catalog
from dojo.content.catalog import Trouble
from dojo.grading.options import Entry
from dojo.grading.resident import ResidentGrader
from dojo.grading.run import run_script
from dojo.judge.fork_server import ForkServer
from dojo.practice import database
from dojo.practice.interview import mock, scorecard, status_line, timed_session
from dojo.practice.interview.timed_session import Event, TimedSession
from tests import terminal
from tests.conftest import copy_of_project
from tests.test_practice import WRONG, dojo, newest

ASKED = ["Why so?", "What if?", "How long?", "How large?", "Which one?", "What then?"]
TESTED = '\n\nif __name__ == "__main__":\n    print("tried")\n    assert causal_mask(1).tolist() == [[{}]]\n'
SILENT_WORDS = ("must hold", "just this", "core:", "robust", "expected")  # of verdicts


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty memory."""
    monkeypatch.setenv("DOJO_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which every kata asks the same six questions."""
    project = copy_of_project(tmp_path_factory.mktemp("asking"))
    blocks = (
        f"# ### {text}\n#\n# - For {number} $\\alpha$.\n#\n# Source: a book\n#" for number, text in enumerate(ASKED)
    )
    cell = '# %% [markdown] tags=["solution", "questions"]\n' + "\n".join(blocks) + "\n"
    for path in (project / "solutions").glob("*/*.py"):
        before, _, _ = path.read_text().partition('# %% [markdown] tags=["solution", "questions"]')
        path.write_text(before + cell)
    return project


def save(project: Path, text: str, pattern: str = "causal_mask.py") -> Callable[..., None]:
    """Save an attempt in the newest mock."""
    return lambda *_: next(newest(project, "mocks").glob(pattern)).write_text(text) and None


def answer(rating: str, said: str = "") -> list[terminal.Step]:
    """Answer a question and rate the answer."""
    return [("Enter shows", terminal.press(f"{said}\n".encode())), ("How well", terminal.press(f"{rating}\n".encode()))]


def test_a_silent_mock_runs_what_is_saved_asks_questions_and_tells_all_at_the_end(asking: Path) -> None:
    right, wrong = TESTED.format(True), TESTED.format(False)
    steps = [
        ("from now", save(asking, WRONG + right.replace("print", "raise ValueError"))),
        ("raises: ValueError: tried", save(asking, WRONG + wrong)),
        ("is wrong on the example you gave", save(asking, WRONG + right)),
        ("causal_mask runs", terminal.press(b"h\n")),
        ("hint 1 of 3", terminal.press(b"q\n")),
        *answer("good", "because"),
        ("Enter shows", terminal.press(b"s\n")),
        *answer("5\n1"),
    ]
    shown, status = terminal.run(["mock", "causal_mask", "--silent"], steps, asking, columns=80)
    assert status == 1, shown
    before, _, after = shown.partition("ended by you")
    coded = before.partition("from now")[2]
    assert "│ tried" in coded
    assert "assert causal_mask(1).tolist() == [[False]]" in coded
    assert not [word for word in SILENT_WORDS if word in coded]
    assert "'5' is none of 1 again, 2 hard, 3 good, 4 easy" in after
    assert re.search(r"For \d α", after)
    diagnosis = "the causal corner at the top left"
    for words in (diagnosis, "core   ", "hints              1 of 3", "questions          3 asked"):
        assert words in after.rpartition("How well")[2]
    assert re.search(r"  (core|robust) +[·░▒▓█]+ \d+/\d+", after)
    told = {(a.rating, a.text) for a in database.answers()}
    assert told == {("good", "because"), ("again", "")}
    shown_again = re.sub(r"\x1b\[[\d;]*m", "", after.rpartition("What you answered, and the key points")[2])
    assert re.search(r"You, rated good:\s+▌ because\s+Key points:\s+• For \d α\.", shown_again), shown_again
    assert shown_again.count("Key points:") == 1, "what was said aloud is not there to be read"
    kept = newest(asking, "mocks") / "answers.md"
    assert f"Answers and key points are kept in mocks/{kept.parent.name}/answers.md." in " ".join(shown_again.split())
    text = kept.read_text("utf-8")
    assert re.search(r"You, rated good:\n\n> because\n\nKey points:\n\n- For \d \$\\alpha\$\.", text), text
    assert "You, rated again:\n\n> (aloud)\n" in text
    (attempt,) = database.recall_all("causal_mask")
    assert (attempt.kind, attempt.verdict) == ("mock", "failed")


@pytest.mark.proof  # half a minute
def test_a_loop_has_breaks_gives_no_hints_and_goes_on_after_one(asking: Path) -> None:
    words = ["mock", "--track", "basics", "--minutes", "16", "--level", "1", "--real"]
    steps = [
        ("from now", terminal.press(b"h\n")),
        ("no hints", terminal.press(b"q\n")),
        *answer("3"),
        ("Enter shows", terminal.press(b"\x03")),
        ("Enter goes on", terminal.press(b"\x03")),
    ]
    shown, status = terminal.run([*words, "--seed", "1"], steps, asking)
    assert status == 1, shown
    assert "rounds, 16 minutes of code" in shown
    folder = re.search(r"mock --resume (mocks/\S+?)`", shown)[1]
    first, second = sorted(path.name for path in (asking / folder).iterdir() if path.is_dir())[:2]
    assert (first[:2], second[:2]) == ("1-", "2-")
    steps = [("from now", terminal.press(b"q\n")), ("Enter shows", terminal.press(b"\x03"))]
    shown, status = terminal.run(["mock", "--resume"], steps, asking)
    assert "questions          1 asked, 2 left" in shown
    assert "none, as in an interview" in shown
    assert "is over" in terminal.run(["mock", "--resume", folder], [], asking)[0]


@pytest.mark.proof
def test_a_terminal_that_closes_at_the_questions_loses_no_answer(asking: Path) -> None:
    steps = [("from now", terminal.press(b"q\n")), *answer("easy"), ("Question 2", terminal.kill)]
    terminal.run(["mock", "causal_mask"], steps, asking)
    (given,) = database.answers()
    steps = [*answer("hard"), ("Enter shows", terminal.press(b"s\n"))]
    shown, _ = terminal.run(["mock", "--resume"], steps, asking)
    assert "from now" not in shown
    assert f"easy               {given.question}" in shown
    assert [a.rating for a in database.answers()] == ["easy", "hard"]


def test_nobody_is_asked_where_nobody_can_answer(asking: Path) -> None:
    shown = dojo(asking, "mock", "causal_mask", "--minutes", "0.02", "--no-record")
    assert "standard input is no terminal; `python -m dojo quiz causal_mask` asks them on one" in shown
    assert "verdict            not started" in shown


@pytest.mark.parametrize(
    ("source", "outcome", "error"),
    [
        ("assert True\nprint(__name__)", "runs", ""),
        ("x = 1  # assert", "runs", "it asserts nothing, so nothing is tested"),
        ("import torch\ntorch.testing.assert_close(torch.ones(1), torch.ones(1))", "runs", ""),
        ("def f():\n    assert 1 > 2, 'no'\nif __name__ == '__main__': f()", "wrong", "AssertionError: no"),
        ("def f(:", "raises", "this is not valid Python"),
        ("import sys; sys.exit(0); assert 0", "runs", ""),
        ("import os; os._exit(0)", "raises", "the attempt ended its own process (exit status 0) instead of returning"),
        ("open('/etc/passwd')", "raises", "PermissionError: an attempt may not open /etc/passwd"),
    ],
)
def test_a_file_is_run_as_a_script_and_confined(source: str, outcome: str, error: str, server: ForkServer) -> None:
    run = run_script(Entry(catalog.katas()["softmax"], source, "softmax.py", ""), server)
    assert (run.outcome, run.error[: len(error)]) == (outcome, error)
    assert run.printed == ("__main__\n" if "print" in source else "")


def test_a_grading_that_is_cut_off_has_no_part_in_the_next() -> None:
    kata = catalog.katas()["causal_mask"]
    with ResidentGrader(1) as grader:
        grader.begin(Entry(kata, "def causal_mask(q, k=None, device=None):\n    return None\n", "wrong.py", ""))
        assert grader.grade(Entry.of_solution(kata)).verdict == "passed"


def test_a_loop_fills_the_minutes() -> None:
    for seed in range(20):
        for track, minutes in (("attention", 30), ("basics", 45), ("all", 90)):
            katas = mock.loop(track, minutes, seed=seed)
            assert 0.85 * minutes <= mock.total(katas) <= minutes
            assert 1 < len(katas) == len(set(katas))
    assert mock.loop("all", 60, seed=3) == mock.loop("all", 60, seed=3)
    with pytest.raises(Trouble, match="the shortest, causal_mask, takes 5"):
        mock.loop("attention", 3)
    with pytest.raises(Trouble, match="'attnetion' is no track: there are basics"):
        mock.loop("attnetion", 60)


def card(capsys: pytest.CaptureFixture[str], held: TimedSession) -> str:
    scorecard.show(held, {})
    return capsys.readouterr().out


def event(at: float, verdict: str, core: str, robust: str, *failing: str) -> Event:
    tiers = {"core": "passed" if core == "6/6" else "failed"}
    return Event(at, "softmax", verdict, tiers, 1, 9, [*failing], {"core": core, "robust": robust} if core else {})


def test_the_scorecard_tells_the_whole_course(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    held = TimedSession(tmp_path, "mock", ["softmax"], 900.0, spent=800.0, ratings={"softmax": {"Why?": "hard"}})
    held.events = [
        event(10, "broken", "", ""),
        event(100, "failed", "0/6", "2/9", "test_values_match"),
        event(300, "failed", "6/6", "5/9"),
        event(700, "passed", "6/6", "9/9"),
    ]
    shown = card(capsys, held)
    assert max(map(len, shown.splitlines())) <= 80
    core, robust, axis = (line[10:62] for line in shown.splitlines()[1:4])
    assert re.fullmatch(r" {6}·{13}█{33}", core)
    assert re.fullmatch(r" {6}░{13}▒{26}█{7}", robust)
    assert axis.startswith("0:00")
    assert axis.index("|par") == int(52 * 600 / 800)
    for words in (
        "first run          1:40",
        "right              5:00, 50% of par (10 min)",
        "passed             11:40",
    ):
        assert words in shown
    assert "failed longest     3:20, values match" in shown
    assert "hard               Why?" in shown
    assert "earlier mocks      none: this is the first" in shown


def test_a_mock_is_held_against_those_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"tiers": {}, "failing": [], "seconds": 1.0, "hints": 0, "text": "x\n"}
    for at, verdict, spent in ((1e9, "failed", 500.0), (2e9, "passed", 400.0), (9e9, "passed", 1.0)):
        database.remember([database.Attempt(at=at, kata="softmax", kind="mock", verdict=verdict, spent=spent, **given)])
    held = TimedSession(tmp_path, "mock", ["softmax"], 900.0, spent=800.0, begun=3e9)
    assert "1 of 2 right, the fastest in 6:40\n" in card(capsys, held)
    held.events = [event(300, "passed", "6/6", "9/9")]
    assert "1 of 2 right, the fastest in 6:40; this one 1:40 faster" in card(capsys, held)


def test_an_old_session_that_is_over_is_not_asked_about(tmp_path: Path) -> None:
    held = TimedSession(tmp_path, "mock", ["softmax"], 900.0, end=timed_session.End.ENDED)
    held.save()
    state = json.loads((tmp_path / timed_session.STATE).read_text())
    for new in ("concluded", "silent", "real", "ran", "ratings", "begun"):
        del state[new]
    (tmp_path / timed_session.STATE).write_text(json.dumps(state))
    with pytest.raises(Trouble, match="is over: ended by you"):
        mock.resumed("mock", str(tmp_path))


def test_the_status_line_of_a_silent_session_tells_no_verdict(tmp_path: Path) -> None:
    held = TimedSession(tmp_path, "mock", ["softmax", "rope"], 900.0, silent=True, real=True, ran={"softmax": "runs"})
    held.events = [event(10, "passed", "6/6", "9/9")]
    line = status_line.status(held, True, 120)
    assert line == "15:00 left · softmax runs · rope not started · q + Enter: end it · Ctrl-C: go on later"
    assert "passed" not in status_line.status(held, True, 40)


def test_a_track_and_names_are_not_asked_for_together(capsys: pytest.CaptureFixture[str]) -> None:
    from dojo.cli import main

    with pytest.raises(SystemExit):
        main.main(["mock", "rope", "--track", "attention"])
    assert "--track chooses the katas: leave out NAME and --random" in capsys.readouterr().err
