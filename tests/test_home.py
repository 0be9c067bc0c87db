"""The home screen as a terminal shows it, and what its keys do."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from dojo.cli import home, main
from dojo.content import catalog
from dojo.practice import progress
from dojo.practice.database import remember
from dojo.practice.schedule import making, plans
from tests.conftest import COUNT, copy_of_project
from tests.terminal import Terminal
from tests.test_memory import attempt


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One kata passed, and a plan."""
    monkeypatch.setenv("DOJO_HOME", str(tmp_path / "home"))
    now, katas = datetime.now(UTC), catalog.katas()
    standings = progress.standings(katas.values(), [], now)
    plans.keep_plan(making.make_plan(katas, standings, date.today() + timedelta(18), 9, now))
    assert remember([attempt("softmax", at=now.timestamp() + 1)]) is None


@pytest.fixture
def terminals(project: Path) -> Iterator[object]:
    opened: list[Terminal] = []

    def make(rows: int = 24, columns: int = 80, **environment: str) -> Terminal:
        opened.append(Terminal(project, rows, columns, **environment))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def picked(lines: list[str]) -> str:
    return next(line.split()[1] for line in lines if line.startswith("›"))


@pytest.mark.parametrize(("rows", "columns"), [(24, 80), (50, 120), (16, 60), (10, 40)])
def test_it_shows_where_one_stands_and_fits(terminals, rows: int, columns: int) -> None:
    lines = terminals(rows, columns).shows("quit")
    assert lines[0].startswith(f"dojo  1 of {COUNT} solved, 1 passed")
    assert lines[1].startswith("next  sdpa (planned for today)")
    assert picked(lines) == "sdpa"
    assert ("basics       ━╌╌╌╌╌╌╌╌╌╌╌ 1 of 7" in lines) == (rows == 50)
    if rows >= 24:
        assert "the interview is in 18 days" in lines[0]
        assert "attention    ╌╌╌╌╌╌╌╌╌╌╌╌ 0 of 6" in lines
        assert any(line.startswith("↑↓ pick · e edit · s show") for line in lines)
    titled = any("sdpa" in line and "Scaled dot-product" in line for line in lines if line.startswith("›"))
    assert titled == (columns >= 100)


def test_keys_pick_a_kata_and_the_list_scrolls(terminals) -> None:
    terminal = terminals()
    terminal.shows("quit")
    terminal.press("down", "down")
    assert picked(terminal.shows("katas/attention/mqa.py · level 2 · Multi-query attention")) == "mqa"
    terminal.press("k", "up")
    terminal.shows("level 1 · Scaled dot-product")
    terminal.press("\t")
    terminal.shows("katas/feedforward/gelu_ffn.py · level 1")
    terminal.press("end")
    last = [*catalog.katas().values()][-1]
    assert picked(terminal.shows(f"katas/{last.track}/{last.name}.py")) == last.name
    terminal.press("down", "page down")
    terminal.resize(30, 110)
    assert picked(terminal.shows(f"{last.title:<38.38}{last.minutes:>3} min")) == last.name
    terminal.press("q")
    assert terminal.status() == 0


def test_a_key_runs_the_command_of_that_name_and_shows_what_to_type(terminals) -> None:
    terminal = terminals(rows=60)
    terminal.shows("quit")
    terminal.press("r")
    lines = terminal.shows("any key goes back", without="quit")
    assert "$ dojo reveal sdpa" in lines
    assert "sdpa is not passed yet, so its solution stays hidden." in lines
    terminal.press(" ")
    terminal.shows("quit")
    terminal.press("p")
    lines = terminal.shows("any key goes back", without="quit")
    assert "✓ softmax" in "\n".join(lines)
    terminal.press(" ")
    terminal.shows("quit")
    terminal.press("\x03")
    assert terminal.status() == 0


def test_a_kata_is_opened_in_the_editor_and_its_state_follows(terminals, tmp_path: Path, project: Path) -> None:
    editor = tmp_path / "editor.py"
    editor.write_text("import sys; open(sys.argv[1], 'a').write('def more():\\n    return 1\\n')\n")
    stub = project / "katas" / "attention" / "sdpa.py"
    before = stub.read_bytes()
    terminal = terminals(EDITOR=f"{sys.executable} {editor}")
    terminal.shows("sdpa                 10 min  not started")
    terminal.press("e")
    terminal.shows("sdpa                 10 min  started")
    assert b"def more()" in stub.read_bytes()
    stub.write_bytes(before)


@pytest.mark.parametrize(
    ("editor", "told"),
    [
        ({"PATH": "/nowhere"}, "No editor is set, and there is no nano or vim or vi: start with EDITOR=YOURS dojo."),
        ({"EDITOR": "no-such-editor -w"}, "that cannot be started"),
    ],
)
def test_without_an_editor_it_says_what_to_do(terminals, editor: dict[str, str], told: str) -> None:
    terminal = terminals(columns=200, **editor)
    terminal.shows("quit")
    terminal.press("e")
    terminal.shows(told, without="quit")
    terminal.press(" ")
    terminal.shows("quit")


def test_where_no_editor_is_set_the_one_that_is_there_is_used(terminals, tmp_path: Path, project: Path) -> None:
    stub = project / "katas" / "attention" / "sdpa.py"
    before = stub.read_bytes()
    editor = tmp_path / "bin" / "vi"
    editor.parent.mkdir()
    editor.write_text(
        f"#!{sys.executable}\nimport sys; open(sys.argv[1], 'a').write('def more():\\n    return 1\\n')\n"
    )
    editor.chmod(0o755)
    terminal = terminals(PATH=str(editor.parent))
    terminal.shows("sdpa                 10 min  not started")
    terminal.press("e")
    terminal.shows("sdpa                 10 min  started")
    stub.write_bytes(before)


@pytest.mark.parametrize("columns", [80, 100, 120])
def test_the_day_for_which_a_kata_is_planned_is_whole(terminals, columns: int) -> None:
    told = "\n".join(terminals(rows=100, columns=columns).shows("quit"))
    days = {plans.day_of(task.day, date.today()) for task in plans.kept_plan().tasks if not task.again}
    assert len(days) > 3
    assert all(f"  {day}" in told for day in days), told
    assert "…" not in told or columns > 100


def test_after_a_pager_no_second_key_is_asked_for(terminals, tmp_path: Path) -> None:
    pager = tmp_path / "pager.py"
    pager.write_text("import sys; sys.stdin.read(); print('paged'); open('/dev/tty').readline()\n")
    terminal = terminals(PAGER=f"{sys.executable} {pager}")
    for key in ("s", "l"):
        terminal.shows("quit")
        terminal.press(key)
        terminal.shows("paged", without="quit")
        terminal.press("\n")
    terminal.shows("quit")


def test_in_a_pipe_it_is_an_overview_with_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"dojo  1 of {COUNT} solved, 1 passed · the interview is in 18 days · plan: 1 of ")
    assert lines[1].startswith("next  sdpa (planned for today), then mha, ")
    assert any(line.startswith("attention ") and line.endswith("0 of 6") for line in lines)
    assert "\x1b" not in "".join(lines)
    assert "Solve a kata" in lines


TOLD = {"help": "commands", "show path": "orders"}  # where the command's name says less


def test_every_key_is_a_command_and_is_told() -> None:
    for key, name in (home.COMMANDS | home.OVERVIEWS).items():
        assert name.split()[0] in (*main.COMMANDS, "help")
        assert f"{key} {TOLD.get(name, name)}" in home.KEYS
