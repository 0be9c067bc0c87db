"""List, hint, reveal and reset."""

import json
import re
import subprocess
import sys
import time
from datetime import UTC, datetime

import pytest

from dojo.cli import katas
from dojo.content import build, catalog, master, sync
from dojo.content.catalog import Kata
from dojo.practice import database, history, progress
from dojo.practice.database import Aid, Help
from dojo.practice.schedule.standing import Standing
from dojo.verdict.types import Check, Outcome, Tier, Verdict
from tests import terminal
from tests.conftest import COUNT, copy_of_project
from tests.test_build import STUB, make
from tests.test_practice import each
from tests.test_sync import ANSWER, edit_notebook

OTHER = ANSWER.replace("return x + x", "return 2 * x + 0")


@pytest.fixture
def kata(tmp_path, monkeypatch):
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    kata = make(tmp_path)
    build.build(root=tmp_path)
    sync.sync(kata)
    return kata


def record(
    kata: Kata, text: str = ANSWER, verdict: str = "passed", kind: str = "grade", tiers: tuple[str, ...] = ()
) -> None:
    checks = [Check("c", Tier(tier), Outcome.PASSED) for tier in tiers]
    history.record([(kata, text, Verdict(kata.name, "", verdict, checks, "cpu", "2.13.0", 1.0, 1))], kind)


def standing(kata: Kata) -> Standing:
    return progress.standings([kata])[kata.name]


def state(kata: Kata) -> str:
    return standing(kata).label


def test_the_state_follows_the_attempt(kata):
    assert state(kata) == "not started"
    kata.stub.write_text(STUB + "# thinking\n")
    assert state(kata) == "not started"
    kata.stub.write_text(ANSWER)
    assert state(kata) == "started"
    record(kata, verdict="failed")
    assert state(kata) == "started"
    record(kata, verdict="failed", tiers=("core",))
    assert state(kata) == "right"
    assert standing(kata).tiers == ("core",)
    kata.stub.write_text(OTHER)
    assert state(kata) == "right, edited since"
    kata.stub.write_text(ANSWER)
    record(kata, OTHER, verdict="failed")
    assert state(kata) == "right, wrong since"
    assert (standing(kata).solved, standing(kata).passed) == (True, False)
    record(kata)
    assert state(kata) == "passed"
    kata.stub.write_bytes(ANSWER.replace("\n", "\r\n").encode() + b"# a note\r\nprint(double(2))\r\n")
    assert state(kata) == "passed"
    kata.stub.write_text(OTHER)
    assert state(kata) == "passed, edited since"
    progress.reset(kata)
    assert state(kata) == "passed"


@pytest.mark.parametrize("verdict", ["failed", "broken"])
def test_a_later_failure_shows_until_the_next_pass(kata, verdict):
    record(kata)
    for _ in range(5):
        record(kata, OTHER, verdict)
    assert state(kata) == "passed, wrong since"
    assert standing(kata).passed
    record(kata)
    assert state(kata) == "passed"


def test_a_pass_comes_due_again(kata):
    record(kata)
    due = standing(kata).due
    assert due > datetime.now(UTC)
    assert progress.standings([kata], now=due)[kata.name].label == "passed, due again"


def test_a_pass_in_a_mock_is_a_pass_whatever_the_own_file_says(kata):
    record(kata, kind="mock")
    assert state(kata) == "passed"
    kata.stub.write_text(OTHER)
    assert state(kata) == "passed"
    record(kata, OTHER)
    assert state(kata) == "passed"
    record(kata, kind="mock")
    assert state(kata) == "passed"
    kata.stub.write_text(STUB + "\n\ndef double(x):\n    return 2.0 * x\n")
    assert state(kata) == "passed, edited since"


def test_what_passed_in_a_notebook_is_not_edited_by_saving_it(kata):
    edit_notebook(kata)
    cells = build.code_cells(kata)
    record(kata, "\n\n".join(cell for cell in cells if "def double" in cell or "class Twice" in cell))
    assert state(kata) == "passed"
    sync.sync(kata)
    assert "return 2 * x" in kata.stub.read_text()
    assert state(kata) == "passed"
    edit_notebook(kata, "return 2 * x", "return 3 * x")
    assert state(kata) == "passed, edited since"


def test_a_mock_in_which_nothing_was_written_says_nothing(kata):
    record(kata, STUB, "empty", "mock")
    assert state(kata) == "not started"
    assert standing(kata).due is None
    record(kata)
    record(kata, STUB, "empty", "mock")
    assert state(kata) == "passed"


@pytest.mark.parametrize("verdict", ["passed", "failed"])
def test_a_hunt_counts_neither_for_nor_against(kata, verdict):
    record(kata, kind="hunt", verdict=verdict, tiers=("core",))
    assert state(kata) == "not started"
    assert (standing(kata).passed, standing(kata).due, len(standing(kata).hunts)) == (False, None, 1)
    record(kata)
    kata.stub.write_text(ANSWER)
    record(kata, kind="hunt", verdict=verdict)
    assert state(kata) == "passed"


def test_what_passed_last_is_what_was_graded_last_and_not_what_was_taken_in_last(kata, tmp_path):
    record(kata, OTHER)
    history.export(tmp_path / "old.jsonl")
    database.place().unlink()
    record(kata, ANSWER)
    kata.stub.write_text(ANSWER)
    history.take_in(tmp_path / "old.jsonl")
    assert state(kata) == "passed"


def test_the_list_reads_no_pictures_and_asks_once(kata, monkeypatch):
    statements = []
    opened = database.sqlite3.connect

    def connect(*words, **more):
        connection = opened(*words, **more)
        connection.set_trace_callback(statements.append)
        return connection

    attempt = {"kind": "grade", "tiers": {}, "failing": [], "seconds": 1.0, "spent": None, "hints": 0, "text": ANSWER}
    details = {"picture": "p" * 200_000}
    given = [
        database.Attempt(at=float(n), kata=f"k{n % 24}", verdict="passed", **attempt, details=details)
        for n in range(480)
    ]
    assert database.remember(given) is None
    monkeypatch.setattr(database.sqlite3, "connect", connect)
    assert len(database.recall_brief()) == 480
    assert katas.show_list(kata.root) == 0
    asked = [statement for statement in statements if "attempt" in statement]
    assert len(asked) == 2  # once by ourselves
    assert not any("details" in statement for statement in asked)


def test_work_that_is_only_in_the_notebook_is_seen(kata):
    edit_notebook(kata)
    assert state(kata) == "started"
    kata.notebook.unlink()
    kata.stub.unlink()
    assert state(kata) == "not started"


def test_list_shows_every_kata_with_its_state(kata, capsys):
    kata.stub.write_text(ANSWER)
    assert katas.show_list(kata.root) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if "double" in line)
    assert row.split() == ["double", "Double", "1", "5", "started"]
    assert "0 of 1 solved" in out


@pytest.mark.parametrize("columns", [40, 80, 120])
def test_a_kata_takes_one_line_of_the_list_and_a_track_has_a_bar(tmp_path, monkeypatch, columns):
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    names = list(catalog.katas())
    for number, name in enumerate(names):
        record(catalog.katas()[name], "x = 1\n", "passed", "mock")
        if number % 3 == 0:
            record(catalog.katas()[name], "x = 1\n", "failed", "mock")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PAGER", "cat")
    shown, _ = terminal.run(["list"], [], catalog.ROOT, columns=columns)
    lines = re.sub(r"\x1b\[\d*m", "", shown).splitlines()
    assert max(map(len, lines[:-1])) <= columns
    tally = f"{COUNT} of {COUNT} solved, {COUNT} passed"
    tracks = {kata.track for kata in catalog.katas().values()}
    assert lines.index(next(line for line in lines if tally in line)) == 1 + len(tracks) + COUNT + 1
    if columns > 40:
        assert "basics                  ━━━━" in next(line for line in lines if line.startswith("basics"))
        assert "6 of 6" in shown
    if columns == 80:
        assert "  causal_attention      Causal self-attention …      3   25  passed" in shown


def test_each_hint_is_one_more_until_there_are_no_more(kata, capsys):
    said = []
    for again in (False, False, False, False, True, False):
        assert katas.show_hint(kata, again=again) == 0
        said.append(capsys.readouterr().out.splitlines()[0])
    first, second, none = (
        "Double: hint 1 of 2",
        "Double: hint 2 of 2",
        "double has no more hints than the 2 you have seen.",
    )
    assert said == [first, second, none, none, first, second]


def test_a_broken_count_of_hints_starts_over(kata, capsys):
    (kata.home / "hints.json").write_text('{"double": "many"}')
    katas.show_hint(kata)
    assert "hint 1 of 2" in capsys.readouterr().out


def test_the_solution_is_hidden_until_a_pass_or_spoil(kata, capsys):
    assert katas.reveal(kata) == 1
    out = capsys.readouterr().out
    assert "not passed yet" in out
    assert "--spoil" in out
    assert "helper" not in out
    assert katas.reveal(kata, spoil=True) == 0
    assert "helper(x)" in capsys.readouterr().out
    record(kata)
    assert katas.reveal(kata) == 0
    assert "It is a sum." in capsys.readouterr().out


def test_where_a_test_is_written_reveal_names_the_mistakes_that_it_is_held_against(capsys):
    assert katas.reveal(catalog.katas()["debug_lm"], spoil=True) == 0
    out = capsys.readouterr().out
    assert "- zero_grad missing (planted)" in out
    assert "- masking: mask after the softmax" in out


def test_without_a_readable_history_list_and_reveal_say_what_they_cannot_know(kata, capsys):
    database.home().mkdir()
    database.place().write_bytes(b"no database" * 1000)
    kata.stub.write_text(ANSWER)
    assert katas.show_list(kata.root) == 0
    shown = capsys.readouterr()
    assert "started" in shown.out
    assert "0 of 1 solved" not in shown.out
    assert "dojo: it is not known what is solved: " in shown.err
    assert katas.reveal(kata) == 1
    out = capsys.readouterr().out
    assert "whether double has passed is not known" in out
    assert "attempts.sqlite" in out
    assert "--spoil" in out
    assert "helper" not in out
    assert katas.reveal(kata, spoil=True) == 0


def test_a_history_that_cannot_be_written_is_told_and_stops_nothing(kata, capsys, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "file" / "below"))
    record(kata)
    assert "dojo: not recorded: " in capsys.readouterr().err


def test_a_grading_is_remembered_and_with_no_record_leaves_no_trace(tmp_path, monkeypatch):
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    project = copy_of_project(tmp_path / "project")
    own = catalog.katas(project)["causal_mask"]
    own.stub.write_text(master.solution_code(master.read_text(own.master)))

    left_out = ("--no-record", "--solution", "--tier core", "-x")
    said = each(project, *(command for words in left_out for command in (f"grade causal_mask {words}", "list")))
    assert all(f"0 of {COUNT} solved" in listed for listed in said[1::2])
    assert not database.home().exists()
    _, listed, revealed = each(project, "grade causal_mask", "list", "reveal causal_mask")
    assert [(a.verdict, a.text) for a in database.recall_all()] == [("passed", own.stub.read_text())]
    assert f"1 of {COUNT} solved, 1 passed" in listed
    assert revealed.startswith("import torch")


def test_reset_keeps_script_and_notebook_and_says_where(kata):
    kata.stub.write_text(ANSWER)
    sync.sync(kata)
    book = kata.notebook.read_bytes()
    katas.show_hint(kata)
    said = progress.reset(kata)
    script, notebook = sorted((kata.home / "kept").glob("double-*"), key=lambda path: path.suffix, reverse=True)
    assert script.read_text() == ANSWER
    assert notebook.read_bytes() == book
    assert f".dojo/kept/{script.name}" in said
    assert notebook.name in said
    assert kata.stub.read_text() == STUB
    assert build.build(check=True, root=kata.root) == (True, [])
    assert sync.sync(kata) is None
    assert "double" not in json.loads((kata.home / "hints.json").read_text())


def test_a_reset_of_several_asks_on_a_terminal(tmp_path):
    project = copy_of_project(tmp_path / "project")
    own = [catalog.katas(project)[name] for name in ("alibi", "rope")]
    for kata in own:
        kata.stub.write_text("mine = 1\n")
    for answer in ("", "n", "what?"):
        asked = terminal.press(answer.encode() + b"\n")
        shown, status = terminal.run(["reset", "positions"], [("[y/N]", asked)], project)
        assert "reset writes 3 stubs and notebooks afresh (absolute_positions … rope)" in shown
        assert "nothing was done" in shown
        assert status == 1
    assert [kata.stub.read_text() for kata in own] == ["mine = 1\n"] * 2
    shown, status = terminal.run(["reset", "positions"], [("[y/N]", terminal.press(b"y\n"))], project)
    assert status == 0
    assert shown.count("is a fresh stub") == 3
    assert len([*(project / ".dojo" / "kept").glob("*.py")]) == 2


def test_a_reset_of_several_in_a_script_needs_a_yes(tmp_path):
    project = copy_of_project(tmp_path / "project")
    own = project / "katas" / "positions" / "rope.py"
    own.write_text("mine = 1\n")

    def reset(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "dojo", "reset", *words]
        return subprocess.run(
            command, cwd=project, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL
        )

    refused = reset("all")
    assert refused.returncode == 2
    assert f"reset writes {COUNT} stubs" in refused.stderr
    assert "say `--yes`" in refused.stderr
    assert own.read_text() == "mine = 1\n"
    done = reset("positions", "--yes")
    assert (done.returncode, done.stdout.count("is a fresh stub")) == (0, 3)
    assert own.read_text() != "mine = 1\n"
    assert reset("alibi").returncode == 0


def test_resets_in_the_same_second_keep_every_attempt(kata):
    for number in range(3):
        kata.stub.write_text(ANSWER + f"# {number}\n")
        progress.reset(kata)
    kept = {path.read_text()[-2] for path in (kata.home / "kept").glob("*.py")}
    assert kept == {"0", "1", "2"}


def test_reset_of_an_untouched_stub_keeps_nothing(kata):
    assert progress.reset(kata) == "katas/basics/double.py is a fresh stub; there was no work to keep."
    assert not (kata.home / "kept").exists()


def test_reset_keeps_a_stub_whose_only_work_is_a_note(kata):
    kata.stub.write_text(STUB + "# my note\n")
    progress.reset(kata)
    assert [path.read_text()[-10:] for path in (kata.home / "kept").glob("*.py")] == ["# my note\n"]


def test_reset_makes_files_that_are_missing_and_keeps_a_broken_notebook(kata):
    kata.stub.unlink()
    kata.notebook.write_text("{")
    progress.reset(kata)
    assert kata.stub.read_text() == STUB
    assert [path.read_text() for path in (kata.home / "kept").glob("*.ipynb")] == ["{"]


def test_help_stays_on_the_record_through_reset_and_restore(kata):
    kata.stub.write_text(ANSWER)
    record(kata, verdict="failed")
    for _ in range(2):
        progress.next_hint(kata)
    assert progress.next_hint(kata, again=True).startswith("Double: hint 1 of 2"), "which is no third hint"
    record(kata, OTHER, verdict="failed")
    progress.reset(kata)
    for first in (1, 2):
        history.restore(kata, database.recall_all("double")[first - 1])
        assert progress.aid(kata, ANSWER) == Aid(2, False)
    record(kata, OTHER)
    assert (standing(kata).label, standing(kata).passed) == ("passed with help", True)
    assert progress.tally([standing(kata)]) == "1 of 1 solved, 1 passed, 1 with help"
    kata.stub.write_text(ANSWER)
    assert standing(kata).label == "with help, edited since"


DAY = 86400.0


@pytest.mark.parametrize(
    ("events", "begun", "aid"),
    [
        ([(0, "hint", 1), (1, "hint", 1), (2, "hint", 2)], None, Aid(2, False)),
        ([(0, "solution", 0), (DAY - 1, "fresh", 0)], None, Aid(0, True)),
        ([(0, "solution", 0), (DAY, "fresh", 0)], None, Aid()),
        ([(0, "solution", 0), (9 * DAY, "hint", 1), (9 * DAY + 5, "fresh", 0)], None, Aid(1, True)),
        ([(0, "solution", 0), (DAY, "fresh", 0), (DAY + 5, "hint", 1)], None, Aid(1, False)),
        ([(0, "solution", 0)], None, Aid(0, True)),
        ([(0, "solution", 0)], 60.0, Aid(0, True)),
        ([(0, "solution", 0), (DAY + 70, "hint", 2)], DAY + 60, Aid(1, False)),
    ],
)
def test_help_counts_until_a_fresh_stub_a_day_later(kata, events, begun, aid):
    database.remember(helps=[Help(1e9 + at, "double", kind, number) for at, kind, number in events])
    assert progress.aid(kata, ANSWER, begun and 1e9 + begun) == aid
    record(kata)
    last = database.recall_all("double")[-1]
    assert begun or (last.aid, standing(kata).helped) == (aid, any(aid))


def test_a_look_at_the_solution_after_a_pass_helps_another_answer_alone(kata):
    record(kata)
    progress.note_solution(kata)
    assert progress.aid(kata, ANSWER + "# the same, with a note\n") == Aid()
    assert progress.aid(kata, OTHER) == Aid(0, True)
    record(kata, OTHER)
    assert state(kata) == standing(kata).label == "passed", "it was passed without help before"
    assert "solution" in history.listing(kata) or "shown" in history.listing(kata)


@pytest.mark.proof
def test_a_pass_after_the_solution_says_so_wherever_it_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    project = copy_of_project(tmp_path / "project")
    own = catalog.katas(project)["causal_mask"]
    (solution,) = each(project, "reveal causal_mask --spoil")
    own.stub.write_text(solution[: solution.index("## ")])
    card = tmp_path / "card.svg"
    graded, listed, listing, overview, _ = each(
        project, f"grade causal_mask --share {card}", "list", "history causal_mask", "history", "report"
    )
    told = "passed after the solution was shown"
    assert f"causal_mask: {told}, 10 checks in " in graded
    assert "the solution was shown · attention: 1 of 6 solved" in graded
    assert "no hint" not in graded
    assert "passed with help" in listed
    assert f"1 of {COUNT} solved, 1 passed, 1 with help" in listed
    assert listing.splitlines()[0].endswith(": passed with help")
    assert listing.splitlines()[3].endswith(" shown")
    assert "passed with help" in overview
    page = (tmp_path / "home" / "report.html").read_text()
    assert told in page
    assert ">passed with help</span>" in page
    assert ">solution was shown</td>" in page
    assert f"✓ {told}" in card.read_text("utf-8")
    again = each(project, "reset causal_mask", "history causal_mask --restore 1", "grade causal_mask --no-record")[-1]
    assert f"causal_mask: {told}" in again
    assert each(project, "grade causal_mask softmax --no-record")[0].count("causal_mask (after the solution was shown)")


def test_a_mock_counts_the_help_of_its_day_and_its_hints_count_later(kata):
    from dojo.practice.interview import scorecard
    from dojo.practice.interview.timed_session import TimedSession

    held = TimedSession(kata.root, "mock", ["double"], 60.0, begun=time.time(), hints={"double": 1})
    assert scorecard.aid(held, kata) == Aid(1, False)
    progress.note_solution(kata)
    assert scorecard.aid(held, kata) == Aid(1, True)
    assert scorecard.aid(TimedSession(kata.root, "hunt", ["double"], 60.0, hints={"double": 1}), kata) == Aid(1, False)
