"""Mock interviews, bug hunts and watching, in real terminals."""

from __future__ import annotations

import io
import json
import random
import shutil
import tokenize
from pathlib import Path

import pytest

from dojo import build, catalog, hunt, interview, memory
from dojo.catalog import Trouble
from tests import terminal
from tests.conftest import Grade

RIGHT = Path(__file__).parent / "attempts" / "softmax"
WRONG = "import torch\n\n\ndef softmax(x, dim=-1):\n    e = x.exp()\n    return e / e.sum(dim, keepdim=True)\n"


def right() -> str:
    return sorted(RIGHT.glob("*.py"))[0].read_text()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("DOJO_HOME", str(tmp_path))
    return str(tmp_path)


@pytest.fixture
def folders():
    """Folders of interviews that a test began, removed afterwards."""
    before = {kind: set((catalog.ROOT / kind).glob("*")) for kind in ("mocks", "hunts")}
    new = lambda kind: sorted(set((catalog.ROOT / kind).glob("*")) - before[kind])  # noqa: E731
    yield new
    for kind in before:
        for folder in new(kind):
            shutil.rmtree(folder)


def write(folders, kind: str, text: str):
    """Save an attempt at softmax in the newest interview."""
    return lambda *_: folders(kind)[-1].joinpath("softmax.py").write_text(text) and None


def test_a_mock_grades_every_save_gives_hints_and_ends_with_a_scorecard(home: str, folders) -> None:
    stub = catalog.katas()["softmax"].stub.read_bytes()
    steps = [
        ("from now", write(folders, "mocks", WRONG)),
        ("checks in", terminal.press(b"h\n")),
        ("hint 1 of", write(folders, "mocks", right())),
    ]
    shown, status = terminal.run(["mock", "softmax", "--minutes", "3"], steps, home)
    assert status == 0, shown
    for words in ("no shift by the maximum", "everything passes", "hints              1 of 3", "of par (10 min)"):
        assert words in shown
    assert "failed longest" in shown
    assert catalog.katas()["softmax"].stub.read_bytes() == stub
    (attempt,) = memory.recall_all("softmax")
    assert (attempt.kind, attempt.verdict, attempt.hints, attempt.text) == ("mock", "passed", 1, right())


def test_the_deadline_ends_a_mock_and_the_last_saved_file_counts(home: str, folders) -> None:
    steps = [("from now", write(folders, "mocks", WRONG))]
    shown, status = terminal.run(["mock", "softmax", "--minutes", "0.12", "--no-record"], steps, home)
    assert status == 1
    assert "the time is up" in shown
    assert "verdict            failed" in shown
    assert memory.recall_all() == []


@pytest.mark.parametrize("cut", [terminal.press(b"\x03"), terminal.kill], ids=["Ctrl-C", "power cut"])
def test_a_mock_that_was_cut_off_goes_on_with_the_time_that_was_left(home: str, folders, cut) -> None:
    terminal.run(["mock", "softmax", "--minutes", "2"], [("from now", terminal.after(4, cut))], home)
    held = interview.load(folders("mocks")[-1])
    assert held.end is interview.End.OPEN
    assert 1 < held.spent < 30
    folder = str(folders("mocks")[-1])
    shown, _ = terminal.run(["mock", "--resume", folder], [("from now", terminal.press(b"q\n"))], home)
    assert "ended by you" in shown
    assert interview.load(folders("mocks")[-1]).spent > held.spent
    assert "is over" in terminal.run(["mock", "--resume", folder], [], home)[0]


def test_a_hunt_is_solved_by_the_right_file_and_then_names_the_bug(home: str, folders) -> None:
    steps = [("failed", write(folders, "hunts", right()))]
    shown, status = terminal.run(["hunt", "softmax", "--seed", "3"], steps, home)
    assert status == 0, shown
    name = json.loads((folders("hunts")[-1] / interview.STATE).read_text())["planted"]["softmax"][0]
    before, _, after = shown.partition("solved in")
    assert name not in before.replace("\r\n", " ")
    assert f"planted: {name}" in after


@pytest.mark.parametrize("name", catalog.katas())
def test_a_hunt_can_be_made_of_every_kata(name: str, graded: Grade) -> None:
    kata = catalog.katas()[name]
    bugs = hunt.pick(hunt.bugs_of(kata), build.read_text(kata.master), 2, random.Random(name))
    source = hunt.hidden(kata, bugs)
    words = tokenize.generate_tokens(io.StringIO(source).readline)
    assert [word.string for word in words if word.type == tokenize.COMMENT] == [source.splitlines()[0]]
    assert graded(name, source, diagnose=False, stop_at_first=True).verdict == "failed"


def test_without_bugs_what_a_hunt_makes_of_a_solution_passes(graded: Grade) -> None:
    assert graded("rope", hunt.hidden(catalog.katas()["rope"], [])).verdict == "passed"


def test_more_bugs_than_there_is_room_for_are_refused() -> None:
    kata = catalog.katas()["softmax"]
    with pytest.raises(Trouble, match="not 99"):
        hunt.pick(hunt.bugs_of(kata), build.read_text(kata.master), 99, random.Random(0))


def test_watch_grades_every_save_and_loses_nothing(home: str) -> None:
    stub = catalog.katas()["causal_mask"].stub
    before = stub.read_bytes()
    work = before.replace(b"raise NotImplementedError", b"return torch.ones(q_len, k_len or q_len).tril().bool()")
    try:
        steps = [
            ("not started", lambda *_: stub.write_bytes(work) and None),
            ("causal_mask: \x1b[0m\x1b[1;31mfailed", terminal.press(b"\x03")),
        ]
        shown, status = terminal.run(["watch", "causal_mask"], steps, home)
    finally:
        stub.write_bytes(before)
    assert status == 1
    assert "s after the save" in shown
    assert memory.recall_all("causal_mask")[-1].text == work.decode()


def test_an_interview_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / interview.STATE).write_text("{")
    with pytest.raises(Trouble, match="no interview that can be read"):
        interview.load(tmp_path)


def test_every_kata_has_questions_with_answers() -> None:
    for kata in catalog.katas().values():
        asked = build.questions(kata)
        assert asked.count("?**") >= 3, kata.name
        assert asked not in build.statement(kata)
