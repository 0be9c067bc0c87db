"""Katas in stages, on a made-up one: what is open in a file, how it grows, what is graded, and how a mock goes."""

from __future__ import annotations

import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest

from dojo.content import catalog, files, master, stages
from dojo.content.catalog import Kata, Trouble
from dojo.notebook import capture
from dojo.practice.interview import inquiries, ladder
from dojo.practice.interview.runner import TerminalDesk
from dojo.practice.interview.session_loop import SessionLoop
from dojo.practice.interview.timed_session import TimedSession
from tests import terminal
from tests.conftest import copy_of_project
from tests.terminal import Terminal

MADE_UP = Path(__file__).parent / "made_up"
NAME = "tiny_ladder"
FIRST = "import torch\n\n\ndef twice(x):\n    return x * 2\n"
SECOND = "import torch\n\n\ndef twice(x, times=2):\n    return x * times\n"
WRONG = "import torch\n\n\ndef twice(x):\n    return x * 3\n"
LOST = "import torch\n\n\ndef twice(x, times=2):\n    return x * (times + 1 if times == 2 else times)\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty memory."""
    monkeypatch.setenv("DOJO_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the made-up ladder in it."""
    root = copy_of_project(tmp_path_factory.mktemp("stages"))
    proofs = root / "graders" / "interviews" / NAME
    proofs.mkdir(parents=True)
    (root / "solutions" / "interviews").mkdir(exist_ok=True)
    shutil.copy(MADE_UP / f"{NAME}.py", root / "solutions" / "interviews")
    shutil.copy(MADE_UP / f"{NAME}_contract.py", proofs / "contract.py")
    dojo(root, "build")
    return root


@pytest.fixture
def kata(project: Path) -> Kata:
    return catalog.katas(project)[NAME]


def dojo(project: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dojo", *words], cwd=project, capture_output=True, text=True, timeout=90
    )


def test_a_stub_has_the_first_stage_alone(kata: Kata) -> None:
    stub = master.stub_text(kata)
    assert 'def twice(x):\n    """Two times `x`, of any shape."""\n    raise NotImplementedError\n' in stub
    assert "Stage 1" in stub
    assert "Contract: Shape<" in stub
    assert not [word for word in ("Stage 2", "times=2", "class Times", "Strong", "Multiply") if word in stub]
    assert master.names(kata) == ["twice"]
    assert master.statement_faults(kata) == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        (FIRST, 1),
        (SECOND, 2),
        ("def twice(x, **more): ...\n", 2),
        ("class Times: ...\n", 1),
        (f"{SECOND}class Times:\n    def __init__(self, times=2): ...\n    def forward(self, x): ...\n", 3),
        (f"{SECOND}class Times:\n    def __init__(self, times=2): ...\n", 2),
        ("def twice(x, times=2:\n", 1),
    ],
)
def test_a_stage_is_open_where_its_signatures_are(kata: Kata, source: str, count: int) -> None:
    assert stages.open_in(kata, source) == count


def test_a_file_grows_and_keeps_what_was_written(kata: Kata) -> None:
    mine = f"# mine\n{FIRST}\n\nKEPT = (  # é\n    1,\n)\n"
    second = stages.opened(kata, mine, 2)
    assert second.startswith(mine.replace("def twice(x):", "def twice(x, times=2):"))
    assert second.count("def twice") == 2 - 1 + second.count("# def twice")
    third = stages.opened(kata, second, 3)
    assert third.startswith(second.rstrip("\n"))
    assert third.count("\nclass Times") == 1
    assert stages.open_in(kata, third) == 3
    compile(third, "grown.py", "exec")


def test_a_file_that_has_grown_is_still_formatted(kata: Kata) -> None:
    grown = stages.opened(kata, stages.opened(kata, master.stub_text(kata), 2), 3)
    assert "\n\n\n# %%\nclass Times" in grown
    assert grown.endswith(f'check("{NAME}")\n')
    assert f"\n\n\n{stages.GRADING}\n" in grown


def test_a_notebook_hands_in_what_later_stages_ask_for(kata: Kata, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {"one": SECOND, "two": "class Times:\n    pass"}
    monkeypatch.setattr(capture.linecache, "getlines", lambda name: cells[name].splitlines(keepends=True))
    found = capture.capture(kata, {"twice": len, "Times": dict}, {name: name for name in cells})
    assert found.text == f"{SECOND}\n\nclass Times:\n    pass\n"
    assert pickle.loads(found.pickled_cells.pickled).keys() == {"twice", "Times"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def twice(\n    x,  # a tensor\n):\n    return x\n", "def twice(\n    x, times=2,  # a tensor\n):"),
        ("def twice(*, x):\n    return x\n", "def twice(*, x, times=2):"),
        ("def twice(x: 'Tensor' = None) -> 'Tensor':\n    return x\n", "def twice(x: 'Tensor' = None, times=2) -> "),
        ("twice = lambda x: 2 * x\n", "\ndef twice(x, times=2):"),
        ("def twice(x, **more):\n    return x\n", "def twice(x, **more):"),
    ],
)
def test_signatures_grow_in_every_shape(kata: Kata, before: str, after: str) -> None:
    grown = stages.opened(kata, before, 2)
    assert after in grown
    compile(grown, "grown.py", "exec")


def test_what_is_no_python_gets_the_prompt_and_loses_nothing(kata: Kata) -> None:
    broken = "def twice(x:\n    return 2 * x\n"
    grown = stages.opened(kata, broken, 2)
    assert grown.startswith(broken)
    assert "# ## Stage 2" in grown


def graded(project: Path, source: str, tmp_path: Path, *words: str) -> tuple[dict, str]:
    """The JSON of a grading of some file, and what the screen says."""
    path, told = tmp_path / "attempt.py", tmp_path / "told.json"
    path.write_text(source)
    done = dojo(project, "grade", NAME, "--attempt", str(path), "--json", str(told), *words)
    return json.loads(told.read_text())[0] | {"status": done.returncode}, done.stdout


@pytest.mark.proof
def test_what_is_open_is_graded_and_all_that_is_asked_for_passes(project: Path, tmp_path: Path) -> None:
    found, shown = graded(project, FIRST, tmp_path)
    assert (found["stages"], found["verdict"], found["standing"]) == ({"1": "passed"}, "failed", "wrong")
    assert "1 passed · 2 not open · 3 not open" in shown
    assert "right so far · stage 1 of 3 reached" in shown
    found, _ = graded(project, FIRST, tmp_path, "--stage", "1")
    assert (found["verdict"], found["status"]) == ("passed", 0)
    found, _ = graded(project, SECOND.replace("times=2", "times=None").replace("times\n", "(times or 2)\n"), tmp_path)
    assert found["stages"] == {"1": "passed", "2": "right"}
    found, shown = graded(project, LOST, tmp_path)
    assert found["stages"] == {"1": "wrong", "2": "passed"}
    assert "stage 0 of 3 reached" in shown
    found, shown = graded(project, FIRST, tmp_path, "--stage", "3")
    assert found["verdict"] == "broken"
    assert "defines no `Times`" in shown


def test_a_stage_that_is_none_is_told(project: Path) -> None:
    told = dojo(project, "grade", NAME, "--stage", "4")
    assert (told.returncode, "tiny_ladder has 3 stages" in told.stderr) == (2, True), told
    told = dojo(project, "grade", "softmax", "--stage", "1")
    assert "softmax asks for all at once" in told.stderr
    assert NAME in told.stderr


def test_a_learner_goes_from_stage_to_stage_and_hears_of_what_broke(kata: Kata, project: Path) -> None:
    stub = kata.stub.read_text()
    kata.stub.write_text(stub.replace("raise NotImplementedError", "return x * 2"))
    told = dojo(project, "grade", NAME).stdout
    assert "stage 1 of 3 reached" in told
    assert "stage tiny_ladder" in told
    told = dojo(project, "stage", NAME).stdout
    assert "Now let me say how often" in told
    grown = kata.stub.read_text()
    assert "def twice(x, times=2):" in grown
    assert any(
        stub.replace("raise NotImplementedError", "return x * 2") == kept.read_text()
        for kept in (kata.home / "kept").glob("**/tiny_ladder*.py")
    )
    kata.stub.write_text(grown.replace("return x * 2", "return x * times * 2"))
    told = dojo(project, "grade", NAME).stdout
    assert re.search(r"stage 1 passed at \d\d:\d\d, fails since stage 2's edit", told), told
    kata.stub.write_text(grown.replace("return x * 2", "return x * times"))
    assert "2 passed" in dojo(project, "grade", NAME).stdout
    dojo(project, "stage", NAME)
    assert "all 3 stages are open" in dojo(project, "stage", NAME).stdout
    dojo(project, "reset", NAME)
    assert kata.stub.read_text() == stub


def test_show_tells_a_stage_and_its_contract(project: Path) -> None:
    assert "Now let me say how often" not in dojo(project, "show", NAME).stdout
    assert "Now let me say how often" in dojo(project, "show", NAME, "--stage", "2").stdout
    told = dojo(project, "show", NAME, "--stage", "2", "--contract").stdout
    assert ("As before" in told, "That of" in told) == (True, False)


def test_a_prompt_opens_with_the_scenario(kata: Kata) -> None:
    first, second, _ = stages.of(kata)
    assert ladder.prompt(kata, first).startswith("# A tiny ladder\n\nOne file that grows.\n\n## Stage 1")
    assert ladder.prompt(kata, second).startswith("## Stage 2")
    assert (second.hints, second.strong) == (("An argument with a default.",), "keeps the default.")


def newest(project: Path) -> Path:
    return max(path for path in (project / "mocks").iterdir() if path.is_dir())


def save(project: Path, change: Callable[[str], str]) -> Callable[..., None]:
    """Edit the file of the newest mock as an editor would."""

    def edit(*_: object) -> None:
        path = newest(project) / f"{NAME}.py"
        files.write_atomic(path, change(path.read_text()))

    return edit


def body(new: str) -> Callable[[str], str]:
    """Another body of `twice`."""
    return lambda text: re.sub(r"(def twice\(.*\):\n(?:    \"\"\".*\"\"\"\n)?    ).*", rf"\g<1>{new}", text, count=1)


def test_a_mock_opens_stages_answers_and_rates(project: Path) -> None:
    leave = ("Enter shows", terminal.press(b"\x03"))
    steps = [
        ("from now", terminal.press(b"what about the shape?\n")),
        ("That of", save(project, body("return x * 2"))),
        ("Now let me say how often", save(project, body("return x * times * 2"))),
        ("worked before and does not any more", save(project, body("return x * times"))),
        ("Make it a layer", terminal.press(b"is it friday?\n")),
        ("Up to you", terminal.press(b"q\n")),
        leave,
    ]
    shown, status = terminal.run(["mock", NAME, "--minutes", "10"], steps[:-1], project, columns=80)
    assert status == 1, shown
    text = newest(project).joinpath(f"{NAME}.py").read_text()
    assert "**Shape.**" not in text, "the contract is not handed out"
    assert "def twice(x, times=2):" in text
    card = shown.rpartition("A tiny ladder (tiny_ladder)")[2]
    assert re.search(r"1 +0:\d\d of 4 min +passed +1 +Shape", card), card
    assert re.search(r"2 +0:\d\d of 3 min +passed", card), card
    assert "up to you: is it friday?" in card
    assert "mixed — strong: every stage reached" in " ".join(card.split())
    assert "Practice next: linear" in card


@pytest.mark.proof
def test_a_mock_that_is_killed_goes_on_with_its_stage_its_questions_and_its_time(project: Path) -> None:
    steps = [
        ("from now", save(project, body("return x * 2"))),
        ("Now let me say how often", lambda _, process: time.sleep(2.5) or os.kill(process, 9)),
    ]
    terminal.run(["mock", NAME, "--minutes", "10"], steps, project)
    folder = newest(project)
    state = json.loads((folder / "interview.json").read_text())
    assert (state["stage"], set(state["opened"])) == (2, {"1", "2"})
    steps = [("let me say how often", terminal.press(b"next\n")), ("Make it a layer", terminal.press(b"q\n"))]
    shown, _ = terminal.run(["mock", "--resume"], steps, project)
    assert "stage 3 of 3" in shown
    assert newest(project) == folder
    assert "class Times" in (folder / f"{NAME}.py").read_text()


def test_an_interview_tells_no_verdict_and_is_asked_from_another_terminal(project: Path) -> None:
    told = []

    def beside(*_: object) -> None:
        time.sleep(2.5)
        told.append(dojo(project, "ask", "which", "shape").stdout)

    steps = [("from now", beside), ("you asked: which shape", save(project, body("return x * 2"))),
             ("Now let me say how often", terminal.press(b"q\n"))]  # fmt: skip
    shown, _ = terminal.run(["mock", NAME, "--minutes", "10", "--real"], steps, project)
    assert "That of" in told[0]
    before = shown.partition("ended by you")[0]
    assert "passed" not in before.partition("from now")[2].replace("not passed", "")
    assert [each.topics for each in inquiries.asked(newest(project))] == [["Shape"]]


def test_a_file_that_loses_its_first_function_is_told_and_can_be_mended(project: Path) -> None:
    steps = [
        ("from now", save(project, body("return x * 2"))),
        ("Now let me say how often", save(project, lambda text: text.replace("def twice", "def thrice"))),
        ("defines no", save(project, lambda text: f"{text}\n\nprint('mine')\n")),
        ("defines no", save(project, lambda text: text.replace("def thrice", "def twice"))),
        ("core 1 of 2", save(project, body("return x * times"))),
        ("Make it a layer", terminal.press(b"q\n")),
    ]
    shown, _ = terminal.run(["mock", NAME, "--minutes", "10"], steps, project)
    assert "Make it a layer" in shown
    assert "print('mine')" in newest(project).joinpath(f"{NAME}.py").read_text()


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_told_and_costs_nothing(
    kata: Kata, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session = TimedSession(tmp_path, "mock", ["softmax"], 600.0, stages=3, stage=1, opened={"1": 0.0})
    loop = SessionLoop(session, Mock(), TerminalDesk())
    loop.ladder = kata
    session.path(NAME).write_text(FIRST)
    monkeypatch.setattr(files, "write_atomic", full)
    loop.keep()
    loop.keep()
    loop.open_next()
    told = capsys.readouterr().out
    assert told.count("how far you are cannot be kept: [Errno 28] No space left on device") == 1
    assert "stage 2 is not open: [Errno 28]" in told
    assert (session.stage, session.path(NAME).read_text()) == (1, FIRST)


def test_of_two_mocks_one_is_named(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "ROOT", project)
    for state in (project / "mocks").glob("*/interview.json"):
        os.utime(state, (1, 1))
    for name in ("one", "two"):
        folder = project / "mocks" / name
        folder.mkdir(parents=True)
        TimedSession(folder, "mock", ["softmax"], 600.0, stage=1).save()
    with pytest.raises(Trouble, match=r"2 mocks are running.*--mock FOLDER"):
        inquiries.running()
    shutil.rmtree(project / "mocks" / "one")
    assert inquiries.running().folder.name == "two"
    shutil.rmtree(project / "mocks" / "two")


def test_nobody_is_there_to_be_asked_without_a_mock(tmp_path: Path, project: Path) -> None:
    for state in (project / "mocks").glob("*/interview.json"):
        os.utime(state, (1, 1))
    told = dojo(project, "ask", "what about masks?")
    assert told.returncode == 2
    assert "no mock is running" in told.stderr


def test_questions_find_their_bullets(kata: Kata) -> None:
    known = {
        "Masked rows": "**Masked rows.** A query that may attend to nothing gets zeros.",
        "Half precision": "**Half precision.** Softmax in float32.",
        "Errors": "**Errors.** Heads that do not divide: a ValueError.",
        "Cost": "**Cost.** One call of the model.",
    }
    for question, topics in {
        "what about masked rows?": ["Masked rows"],
        "what about maskd rows": ["Masked rows"],
        "what if a query can't attend to anything": ["Masked rows"],
        "should softmax be in fp32?": ["Half precision"],
        "do I validate inputs?": ["Errors"],
        "may I loop?": ["Cost"],
        "is it friday?": [],
        "": [],
        "\x1b[31m": [],
    }.items():
        assert inquiries.matching(question, known) == topics, question


VARIES = re.compile(r"\d{8}-\d{6}|\d+:\d\d|\d+\.\d s|(?<=seed )\d+|[ ·░▒▓█]{40,}")  # clocks, and bars over time
BESIDE = re.compile(r"left · stage|^(what about the shape)?\??$|^next$")  # the line with the clock, and what is typed


def steady(text: str) -> list[str]:
    """What a screen says, but for what depends on the moment; each line once, for a save may be graded twice."""
    return [*dict.fromkeys(VARIES.sub("#", line) for line in text.splitlines() if not BESIDE.search(line))]


@pytest.mark.proof
def test_an_interview_of_80_by_24_is_as_it_was_reviewed(project: Path, request: pytest.FixtureRequest) -> None:
    """All that a terminal showed: `--update` writes it anew."""
    shown = Terminal(project, 24, 80, "mock", NAME, "--minutes", "10")
    shown.shows("1 of 3 · tiny_ladder not started")
    shown.press("what about the shape?\n")
    shown.shows("That of x.")
    save(project, body("return x * 2"))()
    shown.shows("stage 2 of 3 · tiny_ladder 1/1")
    save(project, body("return x * times * 2"))()
    shown.shows("does not any more")
    shown.press("next\n")
    shown.shows("stage 3 of 3")
    shown.press("q\n")
    assert shown.status() == 1
    lines = shown.all()
    os.close(shown.end)
    assert max(map(len, lines)) <= 80
    golden, text = MADE_UP / "interview.txt", "\n".join(lines).rstrip() + "\n"
    if request.config.getoption("--update"):
        golden.write_text(text, "utf-8")
    assert steady(text) == steady(golden.read_text("utf-8"))
