"""Bug hunts: what is planted, what is handed out, and a hunt in a real terminal."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import time
import tokenize
from itertools import combinations
from pathlib import Path

import pytest

from dojo.content import catalog, master, proofs, stages
from dojo.content.catalog import Trouble
from dojo.judge.fork_server import ForkServer
from dojo.practice import database
from dojo.practice.hunt import bug_hunt, planting
from dojo.practice.hunt.planting import Facts, Wish, choose, planted, program, together
from dojo.practice.hunt.traces import traces
from dojo.practice.interview import timed_session
from tests import terminal
from tests.conftest import SEED, Grade, on_core

KATAS = catalog.katas()
ROOM = {"linear": 2, "embedding": 2}  # a product and a look-up have few lines that values come from
every_kata = pytest.mark.parametrize("name", KATAS, ids=lambda name: f"kata_{name}_")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty memory."""
    monkeypatch.setenv("DOJO_HOME", str(tmp_path))


def source(name: str) -> str:
    return master.read_text(KATAS[name].master)


def bugs(name: str, *names: str) -> list:
    known = {bug.name: bug for bug in proofs.bugs(KATAS[name])}
    return [known[each] for each in names]


def newest(project: Path) -> Path:
    return max((project / "hunts").iterdir())


def passed(kata: str) -> None:
    given = {"tiers": {"core": "passed"}, "failing": [], "seconds": 1.0, "spent": None, "hints": 0, "text": "x\n"}
    database.remember([database.Attempt(at=time.time(), kata=kata, kind="grade", verdict="passed", **given)])


def test_a_hunt_is_read_first_is_solved_by_the_right_lines_and_then_names_the_bugs(project: Path) -> None:
    def mend(*_: object) -> None:
        time.sleep(1.5)
        assert timed_session.load(newest(project)).events == [], "graded before the first save"
        path = newest(project) / "causal_mask.py"
        path.write_text(path.read_text().partition("\n\n")[0] + "\n\n" + program(source("causal_mask")))

    steps = [("Go on? [y/N]", terminal.press(b"y\n")), ("from now", mend)]
    shown, status = terminal.run(["hunt", "causal_mask", "--bugs", "2", "--seed", "3"], steps, project)
    assert status == 0, shown
    assert "find the 2 bugs in hunts/" in shown
    assert "to write" not in shown, "no test is asked for"
    state = json.loads((newest(project) / timed_session.STATE).read_text())
    before, _, after = shown.replace("\r\n", " ").partition("solved in")
    for bug in bugs("causal_mask", *state["planted"]["causal_mask"]):
        assert bug.name not in before
        assert f"planted: {bug.name}" in after
    assert "your fix: 2 lines out, 2 in" in after
    assert database.recall_all()[-1].kind == "hunt"


def test_a_hunt_asks_before_it_hands_over_a_solution_that_has_not_passed(project: Path) -> None:
    shown, status = terminal.run(["hunt", "softmax"], [("Go on? [y/N]", terminal.press(b"n\n"))], project)
    assert (status, shown.count("You have not passed softmax yet")) == (1, 1)
    assert "nothing was planted" in shown
    command = [sys.executable, "-m", "dojo", "hunt", "softmax"]
    told = subprocess.run(command, cwd=project, input="", capture_output=True, text=True, timeout=60, check=False)
    assert told.returncode == 2
    assert "say `--yes` where nobody can be asked. Nothing was planted." in told.stderr
    assert not list((project / "hunts").glob("*-softmax"))


def test_of_what_has_passed_a_hunt_asks_nothing(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    passed("softmax")
    assert bug_hunt.may_see([KATAS["softmax"]])
    with pytest.raises(Trouble, match="you have not passed rope yet, and a hunt hands over the solution, bugs"):
        bug_hunt.may_see([KATAS["softmax"], KATAS["rope"]])
    monkeypatch.setattr(database, "place", lambda: Path(__file__))
    with pytest.raises(Trouble, match="whether you have passed softmax is not known"):
        bug_hunt.may_see([KATAS["softmax"]])


@every_kata
def test_what_is_handed_out_is_the_solution_without_its_comments(name: str) -> None:
    code, stub = program(source(name)), master.stub_text(KATAS[name])
    words = tokenize.generate_tokens(io.StringIO(code).readline)
    assert [word.string for word in words if word.type == tokenize.COMMENT] == []
    assert stages.of(KATAS[name]) or _docstrings(code) == _docstrings(stub)  # of stages the stub has the first alone
    assert _bare(code) == _bare(master.solution_code(source(name)))


def _docstrings(code: str) -> list[str]:
    """Every docstring; a stub has none that the solution keeps to itself."""
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, master.DEFINITIONS)]
    return sorted(filter(None, map(ast.get_docstring, nodes)))


def _bare(code: str) -> str:
    tree = ast.parse(code)
    for node in ast.walk(tree):
        if isinstance(node, master.DEFINITIONS) and ast.get_docstring(node):
            del node.body[0]
    return ast.dump(tree)


def test_without_bugs_what_is_handed_out_passes(graded: Grade) -> None:
    assert graded("rope", program(source("rope"))).verdict == "passed"


@pytest.mark.parametrize(
    "names", [["alibi", "mha"], pytest.param([*KATAS], marks=pytest.mark.proof)], ids=["two", "all"]
)
def test_no_planted_place_is_known_by_its_format(names: list[str], tmp_path: Path) -> None:
    for name in names:
        for number, bug in enumerate(bug for bug in proofs.bugs(KATAS[name]) if bug.mark != proofs.RAISES):
            (tmp_path / f"{name}_{number}.py").write_text(program(bug.plant(source(name))))
    for words in (["format", "--check"], ["check", "--select=E501,E70,W"]):
        command = [sys.executable, "-m", "ruff", *words, f"--config={catalog.ROOT / 'pyproject.toml'}", tmp_path]
        told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert told.returncode == 0, told.stdout


def test_code_that_does_nothing_gives_its_bug_away() -> None:
    shown = ("keys not rotated", "positions ignored", "no scale")
    found = [planting.gives_itself_away(KATAS["causal_attention"], bug) for bug in bugs("causal_attention", *shown)]
    assert found == [False, True, False]


@pytest.mark.parametrize(
    ("body", "trace"),
    [
        ("y = g(x)\n    y = x\n    return y", "y is assigned for nothing"),
        ("y = g(x)\n    y = y + x\n    return y", ""),
        ("y = g(x)\n    if x:\n        y = x\n    return y", ""),
        ("y = g(x)\n    return x", "y is never read"),
        ("y = g(x)\n    y[0] = 1\n    return x", "y is never read"),
        ("_, y = g(x)\n    return y", ""),
        ("x = x\n    return x", "x = x"),
        ("return 0 * x", "0 * x"),
        ("return x\n    return y", "code after its end"),
        ("if False:\n        x = 1\n    return x", "if False"),
        ("x\n    return y", "x"),
    ],
)
def test_code_without_an_effect_is_seen(body: str, trace: str) -> None:
    assert [each.removeprefix("f: ") for each in traces(f"def f(x, g):\n    {body}")] == [trace] * bool(trace)


def test_only_what_gives_wrong_values_is_planted(server: ForkServer, core: int | None) -> None:
    forbidden, wrong = "complex multiplication in RoPEReal", "pairs (i, i + d_k/2) instead of (2i, 2i + 1)"
    with on_core(core):
        facts = Facts(KATAS["rope"], [[bug] for bug in bugs("rope", forbidden, wrong)], server)
    assert facts.fails(forbidden)
    assert not facts.shows(forbidden, crashes=True)
    assert facts.shows(wrong, crashes=False)


def test_bugs_are_planted_in_statements_of_their_own() -> None:
    kata = KATAS["softmax"]
    every = proofs.bugs(kata)
    found = together(kata, every, 99)
    assert 3 <= len(found) < len(every)
    lines = program(source("softmax")).splitlines()
    assert len(set(lines) - set(program(planted(source("softmax"), found)).splitlines())) >= len(found)
    rows = bugs("sdpa", "softmax over the queries", "weights detached from the graph", "no scale")
    assert together(KATAS["sdpa"], rows, 3) == [rows[0], rows[2]]


@pytest.mark.parametrize(("name", "count"), [("causal_mask", 3), ("alibi", 3), ("softmax", 1)])
def test_every_program_with_some_of_the_bugs_left_fails(
    name: str, count: int, server: ForkServer, core: int | None, graded: Grade
) -> None:
    known: dict[str, bool] = {}
    with on_core(core):
        chosen = choose(Wish(name, count, SEED), server, known)
        assert choose(Wish(name, count, SEED), server, known) == chosen
    assert len(chosen) == count
    for size in range(1, count + 1):
        for some in combinations(bugs(name, *chosen), size):
            verdict = graded(name, program(planted(source(name), some)), diagnose=False, stop_at_first=True, seed=7)
            assert verdict.verdict == "failed", [bug.name for bug in some]


def test_a_bug_that_another_hides_is_not_planted_with_it(server: ForkServer, core: int | None) -> None:
    one, other = "k_len ignored", "distances in half precision"
    both = bugs("alibi", one, other)
    with on_core(core):
        alone = Facts(KATAS["alibi"], [[bug] for bug in both], server)
        assert not planting.side_by_side(KATAS["alibi"], both, True, server)
    assert alone.shows(one, crashes=False)
    assert alone.shows(other, crashes=False)


def test_a_bug_that_only_raises_is_planted_when_it_is_asked_for(server: ForkServer, core: int | None) -> None:
    name = "super().__init__ without the call"
    with on_core(core):
        facts = Facts(KATAS["linear"], [bugs("linear", name)], server)
    assert facts.shows(name, crashes=True)
    assert not facts.shows(name, crashes=False)


def test_more_bugs_than_there_is_room_for_are_refused(monkeypatch: pytest.MonkeyPatch, server: ForkServer) -> None:
    monkeypatch.setattr(planting, "choose_for_all", lambda wishes, server: [["mask inverted"]])
    with pytest.raises(Trouble, match="causal_mask has no room for 4 bugs that do not hide each other: ask for fewer"):
        bug_hunt.begin([KATAS["causal_mask"]], [Wish("causal_mask", 4, 0)], None, server, tests=False)


def test_the_answer_is_the_diff_that_mends() -> None:
    (bug,) = bugs("sdpa", "softmax over the queries")
    planted_line, right_line = bug_hunt.mended(KATAS["sdpa"], bug)
    assert planted_line == "-    weights = F.softmax(scores, dim=-2, dtype=acc).to(q.dtype)"
    assert right_line == "+    weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)"
    planted_line, right_line = bug_hunt.mended(KATAS["sdpa"], *bugs("sdpa", "no scale"))
    assert planted_line == "-    scores = q @ k.transpose(-2, -1)"
    assert right_line == "+    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])"


def test_a_test_is_said_to_be_written_where_there_is_one(tmp_path: Path) -> None:
    held = timed_session.TimedSession(tmp_path, "hunt", ["sdpa", "rope"], 60.0, mutants={"sdpa": [], "rope": []})
    assert bug_hunt.tests_to_write(held) == ""
    held.mutants["rope"] = ["angles in degrees"]
    assert bug_hunt.tests_to_write(held).startswith("The test at the end of rope.py is yours to write: it accepts")
    held.mutants["sdpa"] = ["no scale"]
    assert bug_hunt.tests_to_write(held).startswith("The test at the end of sdpa.py and rope.py is yours to write")


def test_what_the_user_changed_is_counted_in_lines(tmp_path: Path) -> None:
    held = timed_session.TimedSession(tmp_path, "hunt", ["sdpa"], 60.0, handed_out={"sdpa": "a = 1\nb = 2\n"})
    held.path("sdpa").write_text("a = 1\n\nb = 2\n")
    assert bug_hunt.changed(held, "sdpa") == "your fix: none"
    held.path("sdpa").write_text("a = 1\nc = 3\nd = 4\n")
    assert bug_hunt.changed(held, "sdpa") == "your fix: 1 line out, 2 in"
    held.path("sdpa").unlink()
    assert bug_hunt.changed(held, "sdpa") == "your fix: not known"


@pytest.mark.proof
@every_kata
def test_every_kata_can_be_hunted_with_every_seed(name: str, server: ForkServer, core: int | None) -> None:
    known: dict[str, bool] = {}
    with on_core(core):
        for wish in [Wish(name, count, seed) for count in (1, ROOM.get(name, 3)) for seed in range(20)]:
            chosen = choose(wish, server, known)
            assert len(chosen) == wish.bugs, wish
            assert not any(planting.gives_itself_away(KATAS[name], bug) for bug in bugs(name, *chosen))
            text = planted(source(name), bugs(name, *chosen))
            assert _bare(program(text)) != _bare(program(source(name)))
