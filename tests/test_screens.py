"""What a terminal of 80 × 24 shows of each command: no line is left to the terminal to break, and what should fits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from dojo.cli import main
from dojo.content import catalog
from dojo.practice import progress
from dojo.practice.database import remember
from dojo.practice.schedule import making, plans
from tests.conftest import copy_of_project
from tests.terminal import Terminal
from tests.test_memory import attempt

ROWS, COLUMNS = 24, 80
GOLDEN = Path(__file__).parent / "golden"
Shown = Callable[..., list[str]]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which softmax is right and RoPE pairs the halves."""
    folder = copy_of_project(tmp_path_factory.mktemp("project"))
    shutil.copy(folder / "solutions" / "basics" / "softmax.py", folder / "katas" / "basics")
    shutil.copy(GOLDEN / "rope" / "half_split.py", folder / "katas" / "positions" / "rope.py")
    shutil.copy(catalog.ROOT / "noxfile.py", folder)
    return folder


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A week of practice, and a plan."""
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    now, katas = datetime.now(UTC), catalog.katas()
    for name, ago in (("linear", 7), ("linear", 6), ("embedding", 5), ("linear", 1)):
        assert remember([attempt(name, at=now.timestamp() - 86400 * ago)]) is None
    standings = progress.standings(katas.values(), [], now)
    plans.keep_plan(making.make_plan(katas, standings, date.today() + timedelta(9), 3, now))


@pytest.fixture
def shown(project: Path) -> Iterator[Shown]:
    """Every line that a command showed, and how many of them had scrolled off at its end; none was broken."""
    opened: list[Terminal] = []

    def run(*words: str, scrolls: bool = False, status: int = 0, **environment: str) -> list[str]:
        terminal = Terminal(project, ROWS, COLUMNS, *words, **environment)
        opened.append(terminal)
        assert terminal.status() == status
        broken = [line for line in terminal.written().splitlines() if len(line) > COLUMNS]
        broken = [line for line in broken if os.environ["DOJO_HOME"] not in line]  # a path is not ours to break
        assert not broken
        lines = "\n".join(terminal.all()).rstrip().splitlines()
        assert scrolls or len(lines) < ROWS, "\n".join(lines)
        return lines

    yield run
    for each in opened:
        os.close(each.end)


def test_a_failed_grading_fits_and_ends_in_what_to_do(shown: Shown) -> None:
    lines = shown("grade", "rope", "--seed", "7", "--no-record", status=1)
    assert any(line.startswith("rope · katas/positions/rope.py · cpu · torch ") for line in lines)
    assert any("equals “pairs (i, i + d_k/2) instead of (2i, 2i + 1)”" in line for line in lines)
    assert lines[-2].startswith("rope: wrong · core 6 of 14 · robust ")
    assert lines[-1] == "next: mend it and grade again, or take a hint: dojo hint rope"


def test_a_pass_fits_and_says_what_is_next(shown: Shown) -> None:
    lines = shown("grade", "softmax")
    assert any(line.startswith("softmax: passed, 25 checks in ") for line in lines)
    assert "  dojo reveal softmax " in "\n".join(lines)


def test_the_list_keeps_each_kata_in_a_line(shown: Shown) -> None:
    lines = shown("list", scrolls=True, PAGER="cat")
    assert len(lines) <= len(catalog.katas()) + len({kata.track for kata in catalog.katas().values()}) + 4
    assert all(any(line.split()[:1] == [name] for line in lines) for name in catalog.katas())


def test_a_statement_is_a_page(shown: Shown) -> None:
    lines = shown("show", "softmax", scrolls=True, PAGER="cat")
    assert lines[:3] == ["Stable softmax", "", "    softmax(x)ᵢ = e^(xᵢ)/(∑ⱼ e^(xⱼ))"]


@pytest.mark.parametrize("words", [("reveal", "linear"), ("list",)])
def test_a_solution_and_the_list_are_read_in_the_users_pager(project: Path, words: tuple[str, ...]) -> None:
    terminal = Terminal(project, ROWS, COLUMNS, *words, PAGER="sed 1s/^/paged:/")
    assert terminal.status() == 0
    assert terminal.all()[0].startswith("paged:")
    assert ("Why" in terminal.written() and "import torch" in terminal.written()) or words == ("list",)
    os.close(terminal.end)


@pytest.mark.parametrize(
    "name",
    ["debug_lm", *(pytest.param(name, marks=pytest.mark.proof) for name in ("rmsnorm", "autograd", "gpt_screen"))],
)
def test_a_kata_that_is_not_begun_fits_and_lacks_nothing_that_it_speaks_of(shown: Shown, name: str) -> None:
    lines = shown("grade", name, "--no-record", status=1)
    told = "\n".join(lines)
    assert len(lines) <= 22
    if name == "debug_lm":
        assert "with both:" in told
        assert "The fix: the program, mended" in told
        assert "The test: test(program)" in told
    elif name == "gpt_screen":
        assert "Find and mend what is wrong" in told, "what the first stage asks"
        assert "Write ." not in told
    else:
        assert lines[2].startswith("    "), "the formula"


def test_a_history_fits(shown: Shown) -> None:
    assert any("linear" in line for line in shown("history"))
    assert any("embedding" in line for line in shown("history", "embedding"))


def test_a_plan_of_some_days_fits(shown: Shown) -> None:
    lines = shown("plan")
    assert lines[0].startswith("The interview on ")
    assert "dojo plan --clear" in "\n".join(lines)
    assert shown("next")[0].startswith("1. ")


def test_a_plan_of_six_hours_is_made_after_an_offer_and_fits(project: Path) -> None:
    day = str(date.today() + timedelta(10))
    terminal = Terminal(project, ROWS, COLUMNS, "plan", "--date", day, "--hours", "6")
    terminal.shows("Begin with them? [y/N]")
    terminal.press("n\n")
    assert terminal.status() == 0
    lines = "\n".join(terminal.all()).rstrip().splitlines()
    assert not [line for line in terminal.written().splitlines() if len(line) > COLUMNS]
    assert len(lines) < ROWS
    told = "\n".join(lines)
    for words in ("  today ", "hunt ", "drill ", "read ", "mock ", "are only read", "No room in 6 h for "):
        assert words in told
    os.close(terminal.end)


def test_the_overview_of_commands_is_whole(shown: Shown) -> None:
    lines = shown("help", scrolls=True)
    assert lines.index("Solve a kata") < lines.index("Practise for the interview") < lines.index("Work on the project")


def test_the_home_screen_fits_exactly(project: Path) -> None:
    terminal = Terminal(project, ROWS, COLUMNS)
    lines = terminal.shows("q quit")
    assert lines[0].startswith("dojo  ")
    assert not terminal.screen.history.top
    terminal.press("q")
    assert terminal.status() == 0
    os.close(terminal.end)


@pytest.mark.skipif(shutil.which("nox") is None, reason="no nox on the path")
def test_bare_nox_breaks_no_line(project: Path) -> None:
    terminal = Terminal(project, ROWS, COLUMNS, program=(shutil.which("nox") or "",))
    assert terminal.status() == 0
    lines = terminal.all()
    assert "  nox -s grade -- softmax" in lines
    assert not [line for line in terminal.written().splitlines() if len(line) > COLUMNS]
    os.close(terminal.end)


def test_the_recorded_first_session_types_commands_that_exist() -> None:
    text = (catalog.ROOT / "docs" / "first_session.md").read_text("utf-8")
    typed = [line.split()[2] for line in text.splitlines() if line.startswith("$ dojo ")]
    assert typed == ["grade", "show", "grade", "grade", "grade", "next"]
    assert set(typed) <= set(main.COMMANDS)
