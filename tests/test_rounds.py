"""An assistant's patch and a review: what is made, what is made of remarks, and both in a real terminal of 80 × 24."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dojo.content import catalog, master, proofs
from dojo.content.catalog import Trouble
from dojo.judge.fork_server import ForkServer
from dojo.practice import database, history, progress
from dojo.practice.hunt import assistant, bug_hunt, findings, reading, refactoring, review
from dojo.practice.hunt.findings import Planted, matched
from dojo.practice.hunt.planting import Wish, planted, program
from dojo.practice.hunt.reader import Reader
from dojo.practice.hunt.traces import traces
from dojo.practice.interview import timed_session
from dojo.practice.interview.runner import TerminalDesk
from dojo.practice.interview.timed_session import Change, End, TimedSession
from tests.conftest import Grade, on_core
from tests.terminal import Terminal

KATAS = catalog.katas()
PATCHED = (
    "alibi",
    "rope",
    "sdpa",
    "mha",
    "gqa",
    "gelu_ffn",
    "lm_loss",
    "sampling",
    "adamw",
    "lora",
    "dpo",
    "gae",
    "moe",
)
REVIEWED = ("rope", "mqa", "gqa", "causal_attention", "linear_cross_entropy", "rope_scaling", "mla", "mixed_precision")
REVIEWED += ("data_loader", "tensor_parallel", "autograd", "manual_backprop", "gpt2")
SEEDED = 2  # this seed's patch of alibi has bugs
RIGHT = """def f(x):
    y = x + 1
    z = y * 2
    out = z - 3
    return out
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty memory."""
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))


def source(name: str) -> str:
    return master.read_text(KATAS[name].master)


def bugs(name: str, *names: str) -> list:
    known = {bug.name: bug for bug in proofs.bugs(KATAS[name])}
    return [known[each] for each in names]


def newest(project: Path, kind: str) -> Path:
    return max((project / f"{kind}s").iterdir())


def a_bug(name: str, *places: tuple[int, int]) -> Planted:
    return Planted(name, "so it is.", places, ())


def a_session(folder: Path, kind: str = "review", **more: object) -> TimedSession:
    held = TimedSession(folder, kind, ["rope"], 60.0, handed_out={"rope": RIGHT}, **more)  # type: ignore[arg-type]
    held.change = Change("", RIGHT)
    reading.hand_out(held, ["done"])
    return held


def test_at_least_twelve_katas_can_be_patched_and_twelve_reviewed() -> None:
    assert all(next(refactoring.refactored(KATAS[name], random.Random(0)), "") for name in PATCHED)
    assert all(next(refactoring.pull_requests(KATAS[name], random.Random(0)), None) for name in REVIEWED)
    assert min(len(PATCHED), len(REVIEWED)) >= 12


@pytest.mark.proof
def test_the_katas_that_can_be_patched_and_reviewed_are_counted() -> None:
    assert len(refactoring.assistants_katas()) >= 60
    assert len(refactoring.reviewed_katas()) >= 19


def test_neither_is_made_of_a_program_with_a_test_beside_it() -> None:
    assert not refactoring.is_plain(KATAS["debug_lm"])
    assert next(refactoring.refactored(KATAS["debug_lm"], random.Random(0)), "") == ""
    with pytest.raises(Trouble, match="softmax has no change of 60 to 120 lines to be reviewed: take a longer one"):
        review.requested(KATAS["softmax"], 0, None)  # type: ignore[arg-type]


def test_a_variable_has_another_name_everywhere_in_its_function() -> None:
    other = "def h(total):\n    return total\n"
    text = f'def f(x):\n    total = x.sum()\n    return g(total, total=total) + "total"\n\n\n{other}'
    edited = refactoring.renamed(text, random.Random(0))
    assert edited is not None
    assert edited.startswith('def f(x):\n    summed = x.sum()\n    return g(summed, total=summed) + "total"\n')
    assert edited.endswith(other)
    assert refactoring.renamed('def f(x):\n    total = x\n    return f"{total=}"\n', random.Random(0)) is None
    assert refactoring.renamed("def f(x, summed):\n    total = x\n    return total\n", random.Random(0)) is None


def test_a_result_has_a_name_before_it_is_returned() -> None:
    edited = refactoring.named_result("def f(x, out):\n    y = x\n    return y @ x\n", random.Random(0))
    assert edited == "def f(x, out):\n    y = x\n    result = y @ x\n    return result\n"
    assert refactoring.named_result("def f(x):\n    y = x\n    return y\n", random.Random(0)) is None


@pytest.mark.parametrize(
    "names", [["alibi", "mha"], pytest.param([*KATAS], marks=pytest.mark.proof)], ids=["two", "all"]
)
def test_no_planted_place_is_known_by_its_form(names: list[str], tmp_path: Path) -> None:
    for name in names:
        rng, kata = random.Random(0), KATAS[name]
        texts = [*refactoring.refactored(kata, rng), *(text for _, text in refactoring.pull_requests(kata, rng))]
        for number, text in enumerate(texts):
            assert not traces(text) - traces(source(name))
            some = [bug for bug in proofs.bugs(kata) if bug.mark != proofs.RAISES and not _away(kata, bug, text)]
            for place, bug in enumerate([None, *some]):
                code = program(bug.plant(text) if bug else text)
                assert not traces(code) - traces(program(source(name)))
                (tmp_path / f"{name}_{number}_{place}.py").write_text(code)
    for words in (["format", "--check"], ["check", "--select=E501,E70,W"]):
        command = [sys.executable, "-m", "ruff", *words, f"--config={catalog.ROOT / 'pyproject.toml'}", tmp_path]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert told.returncode == 0, told.stdout


def _away(kata: catalog.Kata, bug: object, text: str) -> bool:
    from dojo.practice.hunt.planting import gives_itself_away

    return gives_itself_away(kata, bug, text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "names", [["alibi", "sdpa"], pytest.param([*KATAS], marks=pytest.mark.proof)], ids=["two", "all"]
)
def test_without_its_bugs_a_patch_is_right(names: list[str], graded: Grade) -> None:
    for name in names:
        for seed in (0, 1):
            text = next(refactoring.refactored(KATAS[name], random.Random(seed)), "")
            if text:
                assert ast.dump(ast.parse(program(text))) != ast.dump(ast.parse(program(source(name))))
                assert graded(name, program(text), diagnose=False).verdict == "passed", name


def test_a_seed_makes_the_same_patch_and_its_bugs_show(server: ForkServer, core: int | None, graded: Grade) -> None:
    wish = Wish("alibi", 2, SEEDED)
    with on_core(core):
        right, names = assistant.patched(KATAS["alibi"], wish, server)
        assert assistant.patched(KATAS["alibi"], wish, server) == (right, names)
    assert len(names) == 2
    both = bugs("alibi", *names)
    for some in ([], both, both[:1], both[1:]):
        verdict = graded("alibi", program(planted(right, some)), diagnose=False, stop_at_first=True)
        assert verdict.verdict == ("failed" if some else "passed"), some
    lines = refactoring.change(program(source("alibi")), program(planted(right, both)))
    assert findings.shown(findings.standing_in(right, both), lines)
    assert sum(sign != " " for _, sign, _ in lines) > 4


def test_about_a_third_of_the_patches_have_no_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    (one,) = bugs("alibi", "k_len ignored")
    monkeypatch.setattr(assistant, "choose", lambda wish, server: [one.name])
    monkeypatch.setattr(refactoring, "refactored", lambda kata, rng: iter([source("alibi")]))
    found = [assistant.patched(KATAS["alibi"], Wish("alibi", 1, n), None)[1] for n in range(120)]  # type: ignore[arg-type]
    assert 25 <= found.count([]) <= 55


def test_a_pull_request_is_a_seeds_and_has_two_to_four_bugs(server: ForkServer, core: int | None) -> None:
    with on_core(core):
        first, second = (review.requested(KATAS["rope"], 3, server) for _ in range(2))
    assert first == second
    before, right, names = first
    assert 2 <= len(names) <= 4
    assert 60 <= len(refactoring.change(before, program(planted(right, bugs("rope", *names))))) <= 120


def test_a_bug_stands_where_the_program_differs_without_it() -> None:
    some = bugs("rope", "rotates backwards", "theta ignored")
    first, second = findings.standing_in(source("rope"), some)
    lines = program(planted(source("rope"), some)).splitlines()
    assert (first.name, second.name) == ("theta ignored", "rotates backwards")
    assert [lines[each.places[0][0] - 1].strip() for each in (first, second)] == [
        "frequency = 10000.0 ** (-torch.arange(0, d_k, 2, dtype=torch.float32) / d_k)",
        "return torch.outer(-position, frequency)",
    ]
    assert [(number, sign) for number, sign, _ in second.mend] == [(second.places[0][0], "-"), (None, "+")]


def test_a_remark_counts_within_two_lines_and_for_one_bug() -> None:
    first, second = a_bug("first", (10, 10)), a_bug("second", (12, 13), (40, 40))
    assert matched([(8, "why")], [first, second]).found == {"first": (8, "why")}
    assert matched([(7, "why")], [first, second]).false_alarms == [(7, "why")]
    assert matched([(42, "far place")], [first, second]).found == {"second": (42, "far place")}
    both = matched([(11, "a"), (11, "b")], [first, second])
    assert (set(both.found), both.missed, both.false_alarms) == ({"first", "second"}, [], [])
    twice = matched([(10, "a"), (9, "b")], [first])
    assert (twice.found, twice.false_alarms) == ({"first": (10, "a")}, [])


def test_a_bug_that_stands_in_no_changed_line_is_not_shown() -> None:
    lines = refactoring.change("a\nb\nc\n", "a\nx\nc\n")
    assert findings.shown([a_bug("one", (2, 2))], lines)
    assert not findings.shown([a_bug("one", (3, 3))], lines)
    assert findings.shown([a_bug("gone", (2, 2))], refactoring.change("a\nb\nc\n", "a\nc\n"))


def test_remarks_are_read_from_the_file_and_as_typed(tmp_path: Path) -> None:
    held = a_session(tmp_path)
    reader, notes = reading.Reading(held, ["done"]), tmp_path / reading.NOTES
    assert reading.remarks(held) == [], "what the file says of itself is no remark"
    assert reader.hear("3: not doubled") == "noted: line 3."
    assert reader.hear("line 9: x") == "there is no line 9: rope.py has 1 to 5."
    assert reader.hear("4:").startswith("you have typed no remark on line 4")
    assert reader.hear("what?").startswith("a remark is `LINE: reason`")
    notes.write_text(notes.read_text() + "- 2: adds one\n3: not doubled\nLine 4: minus\n5:\n")
    assert reading.remarks(held) == [(2, "adds one"), (3, "not doubled"), (4, "minus")]
    assert reader.hear("3:") == "taken back: line 3."
    assert held.end is End.OPEN
    assert reader.hear("done") == ""
    assert (held.end, held.change.word if held.change else "") == (End.ENDED, "done")
    again = timed_session.load(tmp_path)
    assert (again.change, again.end) == (held.change, held.end)


def test_who_rejects_says_why_and_the_word_alone_judges(tmp_path: Path) -> None:
    held = a_session(tmp_path, "hunt", planted={"rope": ["a", "b"]})
    reader = reading.Reading(held, assistant.WORDS)
    assert reader.hear("reject").startswith("say which line is wrong and why")
    assert reader.hear("reject 77: no").startswith("there is no line 77")
    assert reader.hear("done").startswith("a remark is"), "no word of this round"
    assert (held.change.word if held.change else "?") == ""
    assert reader.hear("reject 2: adds one") == ""
    assert (held.end, held.judged_rightly) == (End.OPEN, True), "it is mended now"
    held.planted = {"rope": []}
    assert not held.judged_rightly
    assert held.asks("rope") == "mend", "the number of bugs is not told"


def test_a_file_that_rejects_without_a_reason_is_asked_for_one(tmp_path: Path) -> None:
    held = a_session(tmp_path, "hunt", planted={"rope": ["a"]})
    reader, notes = reading.Reading(held, assistant.WORDS), tmp_path / reading.NOTES

    class Saved:
        def new(self) -> bytes:
            return notes.read_bytes()

    reader._saves = Saved()  # type: ignore[assignment]
    notes.write_text("reject\n")
    assert "say which line is wrong and why" in "".join(reader.step())
    notes.write_text("2: adds one\nreject\n")
    reader.step()
    assert held.change
    assert held.change.word == "reject"


def test_a_saved_word_ends_the_reading_and_time_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = a_session(tmp_path)
    notes = tmp_path / reading.NOTES
    notes.write_text(notes.read_text() + "2: adds one\ndone\n")
    with Path("/dev/null").open() as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert Reader(reading.Reading(held, ["done"])).run()
        assert (held.end, reading.remarks(held)) == (End.ENDED, [(2, "adds one")])
        late = a_session(tmp_path)
        late.seconds = 0.2
        assert Reader(reading.Reading(late, ["done"])).run()
    assert late.end is End.TIME
    assert late.spent >= 0.2


def test_a_review_never_counts_as_an_attempt(capsys: pytest.CaptureFixture, tmp_path: Path) -> None:
    held = a_session(tmp_path, planted={"rope": []})
    review.record(held, [(2, "adds one")], matched([], []), solved=True)
    (kept,) = database.recall_all("rope")
    assert (kept.kind, kept.passed, kept.text) == ("review", True, "2: adds one\n")
    standing = progress.standings([KATAS["rope"]])["rope"]
    assert (standing.solved, standing.passed, standing.gradings) == (False, False, ())
    assert "reviews solved, which change no state: rope 1 of 1" in history.overview()
    assert "  review  solved" in history.listing(KATAS["rope"]).replace("review ", " review ")
    with pytest.raises(Trouble, match="is a review: its text are remarks"):
        history.restore(KATAS["rope"], kept)


def test_who_rejects_what_is_right_has_not_solved_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dojo.practice.interview import mock
    from dojo.verdict.types import Verdict

    held = a_session(tmp_path, "hunt", planted={"rope": []})
    (tmp_path / "rope.py").write_text(RIGHT)
    verdict = Verdict("rope", "rope.py", "passed", [], "cpu", "2", 0.1, 0)
    monkeypatch.setattr(mock, "grade_once_more", lambda *_: {"rope": verdict})
    for word in ("reject", "accept"):
        assert held.change
        held.change.word = word
        mock.grade_and_record(held, TerminalDesk(), None)  # type: ignore[arg-type]
    assert [(each.kind, each.passed) for each in database.recall_all("rope")] == [("hunt", False), ("hunt", True)]
    assert not progress.standings([KATAS["rope"]])["rope"].solved


def test_both_ask_before_they_hand_over_a_solution() -> None:
    with pytest.raises(Trouble, match="you have not passed rope yet, and a review hands over the solution"):
        bug_hunt.may_see([KATAS["rope"]], "review")


def within(terminal: Terminal) -> None:
    """No line was left to the terminal to break."""
    assert [line for line in terminal.written().splitlines() if len(line) > 80] == []


def test_a_review_in_a_terminal_is_cut_off_goes_on_and_ends_in_a_scorecard(project: Path) -> None:
    terminal = Terminal(project, 24, 80, "review", "rope", "--yes", "--seed", "3", "--minutes", "9")
    lines = terminal.shows("0 remarks >")
    assert "`done` ends the review. Ctrl-C: go on later." in lines
    folder = newest(project, "review")
    bug = findings.of(timed_session.load(folder))[0]
    terminal.press(f"{bug.places[0][0]}: it is wrong\n")
    terminal.shows("1 remark >")
    terminal.press("\x03")
    assert terminal.status() == 1
    assert "interrupted with 9 minutes left: `dojo review --resume" in terminal.written()
    within(terminal)
    terminal = Terminal(project, 24, 80, "review", "--resume")
    terminal.shows("1 remark >")
    notes = folder / reading.NOTES
    notes.write_text(notes.read_text() + "25: no bug\n")
    terminal.shows("review.md: 1 remark.")
    terminal.press("done\n")
    assert terminal.status() == 1
    within(terminal)
    told = "\n".join(terminal.all())
    card = told[told.index("Rotary position embedding (rope), a review") :]
    count = len(findings.of(timed_session.load(folder)))
    assert f"  found              1 of {count}\n" in card
    assert "  false alarms       1\n" in card
    assert f"found, line {bug.places[0][0]}: {bug.name}" in card
    assert f"you, at line {bug.places[0][0]}: it is wrong" in card
    assert "false alarm, line 25: no bug" in card
    assert database.recall_all("rope")[-1].kind == "review"


@pytest.mark.proof
def test_a_patch_in_a_terminal_is_rejected_mended_and_scored(project: Path) -> None:
    words = ("hunt", "alibi", "--assistant", "--yes", "--seed", str(SEEDED))
    terminal = Terminal(project, 24, 80, *words)
    lines = terminal.shows("0 remarks >")
    assert "mend" in "\n".join(lines)
    folder = newest(project, "hunt")
    held = timed_session.load(folder)
    assert held.change
    first, second = findings.of(held)
    assert "bugs" not in (folder / "alibi.py").read_text(), "nothing in the file tells whether it has any"
    terminal.press(f"{first.places[0][0]}: this one\n")
    terminal.shows("1 remark >")
    terminal.press("reject\n")
    terminal.shows("left · alibi")
    terminal.press("\x03")
    assert terminal.status() == 1
    terminal = Terminal(project, 24, 80, "hunt", "--resume")
    terminal.shows("left · alibi")
    time.sleep(0.5)
    (folder / "alibi.py").write_text(program(held.change.right))
    assert terminal.status() == 0
    within(terminal)
    told = "\n".join(terminal.all())
    card = told[told.index("(alibi), an assistant's patch") :]
    assert "  verdict            rejected, right: 2 bugs were planted\n" in card
    assert "  bugs named         1 of 2\n" in card
    assert "  false alarms       0\n" in card
    assert "  mended             yes; your fix: " in card
    assert f"missed, line {second.places[0][0]}: {second.name}" in card
    (attempt,) = database.recall_all("alibi")
    assert (attempt.kind, attempt.passed) == ("hunt", True)
    assert not progress.standings([KATAS["alibi"]])["alibi"].solved
    told_again = Terminal(project, 24, 80, "hunt", "--resume", str(folder))
    assert told_again.status() == 2
    assert "is over: everything passes" in " ".join(told_again.written().split())
