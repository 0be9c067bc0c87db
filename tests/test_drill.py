"""Drills: one short kata from memory; and the placement, which is five of them before a plan."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from dojo.content import catalog
from dojo.content.catalog import Trouble
from dojo.practice import database, progress
from dojo.practice.database import remember
from dojo.practice.interview import drill, mock, placement, timed_session
from dojo.practice.interview.runner import cut_off
from dojo.practice.interview.timed_session import End
from dojo.practice.schedule import drills, plans
from dojo.practice.schedule.plans import Plan, Task
from tests import terminal
from tests.conftest import copy_of_project
from tests.test_memory import attempt
from tests.test_practice import newest

KATAS = catalog.katas()
MASK = """import torch


def causal_mask(q_len, k_len=None, *, device=None):
    k_len = q_len if k_len is None else k_len
    return torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(k_len - q_len)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty memory."""
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of one's own."""
    return copy_of_project(tmp_path_factory.mktemp("drills"))


def save(project: Path, text: str, folder: str = "drills", pattern: str = "*.py") -> Callable[..., None]:
    """Save an attempt in the newest drill."""
    return lambda *_: next(newest(project, folder).glob(pattern)).write_text(text) and None


def words(shown: str) -> str:
    """What was shown, in one line."""
    return " ".join(re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown).split())


def test_a_drill_is_the_ask_alone_ends_when_it_is_right_and_is_remembered(project: Path) -> None:
    steps = [("from now", save(project, MASK))]
    shown, status = terminal.run(["drill", "causal_mask"], steps, project, columns=80)
    assert status == 0, shown
    told = words(shown)
    assert "5 minutes from now. Every save of drills/" in told
    assert "it is right. The last saved files are graded once more" in told
    assert re.search(
        r"Causal mask: right after 0:\d\d of 5:00\. It comes again on \d\d \w+\. `\S+ .*drill` holds", told
    )
    assert "Question 1" not in told
    assert "earlier mocks" not in told
    (path,) = newest(project, "drills").glob("*.py")
    handed_out = timed_session.load(path.parent).handed_out["causal_mask"]
    assert "contract" not in handed_out
    assert "NotImplementedError" in handed_out
    (found,) = database.recall_all("causal_mask")
    assert (found.kind, found.solved, found.hints) == ("drill", True, 0)


def test_a_drill_that_was_left_is_found_again_and_what_is_not_right_says_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(catalog, "ROOT", tmp_path)
    held = drill.begin(KATAS["softmax"], 420.0, tmp_path / "drills" / "20261126-080000-softmax")
    assert mock.resumed("drill", "").katas == ["softmax"]
    assert cut_off([held], held) == 1
    told = words(capsys.readouterr().out)
    assert "interrupted with 7 minutes left: `nox -s drill -- --resume " in told
    held.spent, held.end, held.hints = 61.0, End.ENDED, {"softmax": 1}
    told = drill.told(held)
    assert told.startswith("Stable softmax: not right after 1:01 of 7:00, with 1 hint. `nox -s show -- softmax` has")
    held.concluded = True
    held.save()
    with pytest.raises(Trouble, match="no drill was cut off"):
        mock.resumed("drill", "")


def test_a_long_kata_is_no_drill_and_says_what_is(project: Path) -> None:
    with pytest.raises(
        Trouble, match=r"rope is of level 3 and takes 25 minutes, .*`nox -s mock -- rope` holds it whole"
    ):
        drill.named("rope")
    assert [name for name, kata in KATAS.items() if drills.fits(kata) and (kata.level > 2 or kata.minutes > 15)] == []
    assert {drills.minutes(kata) for kata in KATAS.values() if drills.fits(kata)} <= {*range(5, 11)}


def test_a_drill_without_a_name_is_due_then_planned_then_new() -> None:
    assert drill.upcoming()[0].name == "softmax", "what is asked most"
    today = date.today()
    task = Task(today, "rmsnorm", 6, True, "drill")
    longer = Task(today, "rope", 13, True)
    plans.keep_plan(Plan(today + timedelta(5), 3, datetime.now(UTC).timestamp(), (longer, task), ()))
    kata, why = drill.upcoming()
    assert (kata.name, why) == ("rmsnorm", "planned for today, drill")
    assert remember([attempt("linear", at=datetime.now(UTC).timestamp() - 60 * 86400)]) is None
    kata, why = drill.upcoming()
    assert kata.name == "linear"
    assert "likely still known" in why


def test_next_names_the_command_of_each_kind() -> None:
    today = date.today()
    kinds = {
        "drill": "drill softmax",
        "hunt": "hunt softmax",
        "ladder": "mock softmax",
        "read": "reveal softmax --spoil",
    }
    for how, words in kinds.items():
        plan = Plan(today, 1, datetime.now(UTC).timestamp(), (Task(today, "softmax", 5, how != "read", how),), ())
        first = plans.propose(KATAS, progress.standings(KATAS.values(), []), plan=plan)[0]
        name, _, rest = words.partition(" ")
        assert (first.how, first.minutes) == (how, 5)
        assert first.steps == f"`nox -s {name} -- {rest}` begins it."
    several = Task(today, "softmax", 30, True, "mock", ("rope", "mha"))
    plan = Plan(today, 1, datetime.now(UTC).timestamp(), (several,), ())
    first = plans.propose(KATAS, progress.standings(KATAS.values(), []), plan=plan)[0]
    assert first.reason == "planned for today, mock with rope, mha"
    assert first.steps == "`nox -s mock -- softmax rope mha` begins it."


def test_a_placement_asks_one_of_each_level_that_was_never_solved_the_most_asked() -> None:
    standings = progress.standings(KATAS.values(), [])
    chosen = placement.chosen(KATAS, standings)
    assert [kata.level for kata in chosen] == [1, 2, 3, 4, 5]
    assert chosen[0].name in ("softmax", "sdpa")
    past = [attempt(kata.name) for kata in chosen]
    others = placement.chosen(KATAS, progress.standings(KATAS.values(), past))
    assert not {*chosen} & {*others}
    assert [kata.level for kata in others] == [1, 2, 3, 4, 5]
    all_done = [attempt(name) for name, kata in KATAS.items() if kata.level == 5]
    assert len(placement.chosen(KATAS, progress.standings(KATAS.values(), all_done))) == 4


def test_what_is_solved_makes_the_easier_katas_of_its_track_known_and_its_groundwork() -> None:
    assert placement.known_by([], KATAS) == set()
    assert placement.known_by(["not_there"], KATAS) == set()
    found = placement.known_by(["gqa"], KATAS)
    assert {"gqa", "mqa", "mha", "sdpa", "softmax", "linear", "causal_mask"} <= found
    assert not {"rope", "causal_attention", "kv_cache"} & found


@pytest.mark.proof
def test_a_placement_can_be_left_keeps_what_it_found_and_goes_on(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five drills one is solved and one is left; the plan is made with what is known."""
    day = str(date.today() + timedelta(10))
    found = placement.chosen(KATAS, progress.standings(KATAS.values(), []))
    solution = found[0].master.read_text()
    steps = [
        ("Begin with them?", terminal.press(b"y\n")),
        ("from now", save(project, solution, "placements", f"1-*/{found[0].name}.py")),
        ("Drill 2 of 5", lambda *_: None),
        ("Ctrl-C pause", terminal.press(b"\x03")),
    ]
    shown, status = terminal.run(["plan", "--date", day, "--hours", "6"], steps, project, columns=80)
    assert status == 0, shown
    told = words(shown)
    assert "10 minutes for 5 drills, the easiest first" in told
    assert f"known by what you have solved: {', '.join(sorted(placement.known_by([found[0].name], KATAS)))}" in told
    assert "The interview on " in told
    kept = plans.kept_plan()
    assert kept is not None
    assert found[0].name in kept.known
    assert placement.found(project) == {found[0].name}
    (folder,) = (project / "placements").iterdir()
    monkeypatch.setattr(catalog, "ROOT", project)
    rounds = placement._left_open()
    assert [held.end for held in rounds] == [End.SOLVED, *[End.OPEN] * 4]
    assert 0 < placement._left(rounds) < 60 * placement.MINUTES - rounds[0].spent
    for held in rounds[1:]:
        held.end = End.ENDED
        held.save()
    assert placement._left_open() == [], "the next one begins anew"
    assert folder.name.endswith("-more")
