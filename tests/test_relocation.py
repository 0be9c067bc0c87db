"""Files at the places where katas stood before there were track folders: each is brought home, and none is lost."""

from __future__ import annotations

import subprocess
import sys
import timeit
from pathlib import Path

import nbformat
import pytest

from dojo.content import build, master, relocation, sync
from dojo.content.catalog import Kata, katas
from tests.conftest import copy_of_project
from tests.test_build import STUB, make
from tests.test_sync import ANSWER, cells, edit_notebook, kept

OLD_STUB = STUB.replace("../..", "..")
OLD_ANSWER = ANSWER.replace("../..", "..")
MOVED = "katas stand in track folders now, your work has moved to"


@pytest.fixture
def kata(tmp_path: Path) -> Kata:
    """A kata whose files lie at the new place, as build wrote them."""
    kata = make(tmp_path)
    build.build(root=tmp_path)
    return kata


def old_script(kata: Kata) -> Path:
    return kata.root / "katas" / "double.py"


def old_notebook(kata: Kata) -> Path:
    return kata.root / "notebooks" / "double.ipynb"


def put_back(kata: Kata, script: str | None, notebook: str | None = None) -> None:
    """A pair at the old place, as an older build wrote it, with these texts in it."""
    if script is not None:
        old_script(kata).write_text(script)
    if notebook is not None:
        fresh = build.notebook(OLD_STUB)
        node = build.notebook(notebook)
        node.metadata["dojo"] = fresh.metadata["dojo"]
        old_notebook(kata).write_text(build.notebook_text(node))


def as_agreed(kata: Kata, script: str, notebook: str) -> None:
    """What an older dojo remembered of a pair that it had synced."""
    put_back(kata, script, notebook)
    was = {"script": old_script(kata), "notebook": old_notebook(kata)}
    now = {side: sync.files.digest(path.read_bytes()) for side, path in was.items()}
    sync.files.update_state(kata.home / "sync.json", kata.name, now)


def relocate(kata: Kata) -> str:
    (said,) = relocation.relocate([kata])
    assert not old_script(kata).exists()
    assert not old_notebook(kata).exists()
    assert relocation.relocate([kata]) == []
    return said


def test_a_script_at_the_old_place_moves_and_a_copy_is_kept(kata: Kata) -> None:
    put_back(kata, OLD_ANSWER)
    said = relocate(kata)
    (copy,) = (kata.home / "kept").iterdir()
    assert said == f"katas/double.py: {MOVED} katas/basics/double.py; a copy is in .dojo/kept/{copy.name}"
    assert kata.stub.read_text() == ANSWER  # its grading cell looks two folders up
    assert copy.read_text() == OLD_ANSWER
    assert "notebook" in str(sync.sync(kata))
    assert "return x + x" in next(cell.source for cell in cells(kata) if "def double" in cell.source)


def test_a_notebook_at_the_old_place_moves_and_finds_the_project(kata: Kata) -> None:
    put_back(kata, OLD_STUB, OLD_ANSWER)
    said = relocate(kata)
    assert f"katas/double.py and notebooks/double.ipynb: {MOVED} notebooks/basics/double.ipynb; copies are in" in said
    assert len(kept(kata)) == 2
    node = nbformat.read(kata.notebook, as_version=4)
    nbformat.validate(node)
    assert 'sys.path.append("../..")' in node.cells[-1].source
    assert "katas/basics/double.py brought up to date" in str(sync.sync(kata))
    assert "return x + x" in kata.stub.read_text()


def test_a_notebook_that_was_only_run_is_somebodys_work(kata: Kata) -> None:
    put_back(kata, None, OLD_STUB)
    node = nbformat.read(old_notebook(kata), as_version=4)
    node.cells[1].outputs = [nbformat.v4.new_output("stream", text="8")]
    nbformat.write(node, old_notebook(kata))
    assert MOVED in relocate(kata)
    assert cells(kata)[1].outputs


def test_a_pair_that_agreed_agrees_at_the_new_place(kata: Kata) -> None:
    as_agreed(kata, OLD_ANSWER, OLD_ANSWER)
    assert f"{MOVED} katas/basics/double.py and notebooks/basics/double.ipynb" in relocate(kata)
    assert sync.pending(kata) == set()
    assert sync.sync(kata) is None


@pytest.mark.parametrize("side", ["script", "notebook"])
@pytest.mark.parametrize("before", [OLD_STUB, OLD_ANSWER])
def test_a_change_that_was_not_synced_yet_is_synced_afterwards(kata: Kata, side: str, before: str) -> None:
    as_agreed(kata, before, before)
    after = before.replace("import math", "import math\n\nmine = 1")
    put_back(kata, **{"script": None, side: after})
    relocate(kata)
    assert sync.pending(kata) == {side}
    assert sync.sync(kata)
    assert "mine = 1" in kata.stub.read_text()
    assert any("mine = 1" in cell.source for cell in cells(kata))


def test_both_changed_is_still_a_conflict(kata: Kata) -> None:
    as_agreed(kata, OLD_ANSWER, OLD_ANSWER)
    put_back(kata, OLD_ANSWER + "one = 1\n", OLD_ANSWER.replace("x + x", "2 * x"))
    relocate(kata)
    with pytest.raises(sync.Conflict):
        sync.sync(kata)


@pytest.mark.parametrize("worked", ["script", "notebook"])
def test_a_new_place_that_has_been_worked_in_stays_and_the_old_work_is_kept(kata: Kata, worked: str) -> None:
    if worked == "script":
        kata.stub.write_text(ANSWER.replace("x + x", "3 * x"))
    else:
        edit_notebook(kata)
    before = kata.stub.read_bytes(), kata.notebook.read_bytes()
    put_back(kata, OLD_ANSWER, OLD_ANSWER)
    old = {old_script(kata).read_bytes(), old_notebook(kata).read_bytes()}
    said = relocate(kata)
    assert "katas/basics/double.py or its notebook has been worked in too and stays as it is; copies are in" in said
    assert (kata.stub.read_bytes(), kata.notebook.read_bytes()) == before
    assert kept(kata) == old


def test_what_nobody_had_worked_in_replaces_nothing(kata: Kata) -> None:
    before = kata.stub.read_bytes(), kata.notebook.read_bytes()
    put_back(kata, OLD_STUB, OLD_STUB)
    assert "nobody had worked in" in relocate(kata)
    assert (kata.stub.read_bytes(), kata.notebook.read_bytes()) == before


def test_a_note_in_a_comment_is_work(kata: Kata) -> None:
    put_back(kata, OLD_STUB + "# my note\n")
    assert MOVED in relocate(kata)
    assert kata.stub.read_text().endswith("# my note\n")


def test_what_cannot_be_read_moves_as_it_is(kata: Kata) -> None:
    old_script(kata).write_bytes(b"\xff\xfe")
    old_notebook(kata).write_text("{")
    relocate(kata)
    assert (kata.stub.read_bytes(), kata.notebook.read_text()) == (b"\xff\xfe", "{")


def test_with_nothing_at_the_new_place_the_files_move_there(kata: Kata) -> None:
    kata.stub.unlink()
    kata.notebook.unlink()
    put_back(kata, OLD_ANSWER, OLD_ANSWER)
    relocate(kata)
    assert kata.stub.read_text() == ANSWER
    assert sync.sync(kata) is None


def test_a_link_stays_a_link_to_where_the_attempt_is(kata: Kata, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(OLD_ANSWER)
    old_script(kata).symlink_to(Path("..", "mine.py"))
    relocate(kata)
    assert kata.stub.resolve() == (tmp_path / "mine.py").resolve()
    assert (tmp_path / "mine.py").read_text() == OLD_ANSWER


def test_looking_costs_next_to_nothing(kata: Kata) -> None:
    assert min(timeit.repeat(lambda: relocation.relocate([kata]), number=24, repeat=10)) < 0.01


WORDS = {
    "grade": ["grade", "alibi", "--tier", "core"],
    "list": ["list"],
    "hint": ["hint", "alibi"],
    "reveal": ["reveal", "alibi"],
    "sync": ["sync", "alibi"],
    "build": ["build"],
    "history": ["history", "alibi"],
    "reset": ["reset", "alibi"],
}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of this module's own."""
    return copy_of_project(tmp_path_factory.mktemp("relocation") / "project")


@pytest.mark.parametrize("command", WORDS)
def test_every_command_that_touches_a_katas_files_brings_them_home(own: Path, command: str) -> None:
    kata = katas(own)["alibi"]
    build.write_fresh(kata)
    code = master.solution_code(master.read_text(kata.master))
    (own / "katas" / "alibi.py").write_text(code)
    words = [sys.executable, "-m", "dojo", *WORDS[command]]
    done = subprocess.run(words, cwd=own, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == (1 if command == "reveal" else 0), done.stdout + done.stderr
    assert f"dojo: katas/alibi.py: {MOVED} katas/positions/alibi.py; a copy is in .dojo/kept/alibi-" in done.stderr
    assert not (own / "katas" / "alibi.py").exists()
    assert (kata.stub.read_text() == code) is (command != "reset")
    assert code.encode() in kept(kata)
