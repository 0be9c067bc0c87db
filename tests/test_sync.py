"""Script and notebook follow each other, and no attempt is ever lost."""

import json
import subprocess
import sys
import timeit

import nbformat
import pytest

from dojo.content import build, files, master
from dojo.content.catalog import Trouble
from dojo.content.sync import Conflict, SyncError, pending, record, script_text, sync
from dojo.grading import options
from dojo.practice import progress
from tests.test_build import OLD_HEADER, STUB, change_master, make

ANSWER = STUB.replace("raise NotImplementedError", "return x + x", 1)


@pytest.fixture
def kata(tmp_path):
    kata = make(tmp_path)
    build.build(root=tmp_path)
    sync(kata)
    return kata


def cells(kata):
    return nbformat.read(kata.notebook, as_version=4).cells


def answer_cell(kata):
    return next(cell for cell in cells(kata) if "def double" in cell.source)


def edit_notebook(kata, old="raise NotImplementedError", new="return 2 * x", outputs=()):
    node = nbformat.read(kata.notebook, as_version=4)
    for cell in node.cells:
        if old in cell.source:
            cell.source = cell.source.replace(old, new)
            cell.outputs = [*outputs]
            break
    nbformat.write(node, kata.notebook)


def run_notebook(kata):
    node = nbformat.read(kata.notebook, as_version=4)
    for number, cell in enumerate(c for c in node.cells if c.cell_type == "code"):
        cell.outputs = [nbformat.v4.new_output("stream", text=f"out {number}")]
        cell.execution_count = number
    nbformat.write(node, kata.notebook)


def kept(kata):
    return {path.read_bytes() for path in (kata.home / "kept").rglob("*") if path.is_file()}


def forget(kata):
    (kata.home / "sync.json").unlink()


def test_an_unchanged_pair_costs_next_to_nothing(kata):
    assert sync(kata) is None
    assert min(timeit.repeat(lambda: sync(kata), number=1, repeat=10)) < 0.02


def test_a_fresh_clone_syncs_without_jupytext(kata):
    forget(kata)
    code = (
        "import sys; from pathlib import Path; from dojo.content import catalog, sync\n"
        f"k = catalog.katas(Path({str(kata.root)!r}))['double']; print(sync.sync(k), sync.sync(k), sync.pending(k))\n"
        "print({'jupytext', 'nbformat', 'torch'} & {*sys.modules})"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=build.ROOT, capture_output=True, text=True, check=True)
    assert run.stdout == "None None set()\nset()\n"


def test_a_saved_script_goes_to_the_notebook(kata):
    kata.stub.write_text(ANSWER)
    assert pending(kata) == {"script"}
    assert sync(kata) == "notebooks/basics/double.ipynb brought up to date from katas/basics/double.py"
    assert "return x + x" in answer_cell(kata).source
    nbformat.validate(nbformat.read(kata.notebook, as_version=4))
    assert kata.stub.read_text() == ANSWER
    assert sync(kata) is None
    run_notebook(kata)
    sync(kata)
    before = kata.notebook.read_bytes()
    kata.stub.write_text(ANSWER.replace("x + x", "x + x + 0"))
    assert "(before: .dojo/kept/sync/double-" in sync(kata)
    assert kept(kata) == {before}


@pytest.mark.parametrize("side", ["script", "notebook"])
def test_a_side_that_only_follows_is_not_kept_again_and_again(kata, side):
    last = "raise NotImplementedError"
    for number in range(12):
        answer = f"return {number} * x"
        if side == "script":
            kata.stub.write_text(kata.stub.read_text().replace(last, answer, 1))
        else:
            edit_notebook(kata, last, answer)
        assert sync(kata)
        assert sync(kata) is None
        last = answer
    assert not kept(kata)


def test_what_was_written_on_the_side_that_follows_is_kept(kata):
    kata.stub.write_text(ANSWER)
    sync(kata)
    edit_notebook(kata, "return x + x", "return x + x + 0")  # now the script follows
    sync(kata)
    assert kept(kata) == {ANSWER.encode()}
    book = kata.notebook.read_bytes()
    kata.stub.write_text(ANSWER.replace("x + x", "x + x + 1"))
    sync(kata)
    assert kept(kata) == {ANSWER.encode(), book}


def test_copies_that_say_nothing_more_are_pruned(kata):
    folder = kata.home / "kept" / "sync"
    folder.mkdir(parents=True)
    kata.stub.write_text(ANSWER)
    sync(kata)
    now = build.notebook_text(nbformat.read(kata.notebook, as_version=4))
    for number, text in enumerate(["old", "other", "old", now]):
        (folder / f"double-20260101-00000{number}.ipynb").write_text(text)
    kata.stub.write_text(ANSWER + "# again\n")
    sync(kata)
    left = sorted(path.read_text() for path in folder.iterdir())
    assert left == sorted(["other", "old", now])
    kata.stub.write_text(ANSWER)
    sync(kata)
    assert sorted(path.read_text() for path in folder.iterdir()) == ["old", "other"]


def test_a_saved_notebook_goes_to_the_script(kata):
    edit_notebook(kata)
    book = kata.notebook.read_bytes()
    assert "katas/basics/double.py brought up to date from notebooks/basics/double.ipynb" in sync(kata)
    assert kata.stub.read_text() == STUB.replace("raise NotImplementedError", "return 2 * x", 1)
    assert kata.notebook.read_bytes() == book
    assert not kept(kata)  # the stub was as built
    assert sync(kata) is None


def test_outputs_stay_with_the_cells_that_have_not_changed(kata):
    run_notebook(kata)
    assert sync(kata) is None  # running cells is no change of what they say
    kata.stub.write_text(ANSWER)
    sync(kata)
    code = [cell for cell in cells(kata) if cell.cell_type == "code"]
    assert [[o.text for o in cell.outputs] for cell in code] == [["out 0"], ["out 1"], [], ["out 3"], ["out 4"]]
    assert code[2].execution_count is None


def test_cell_ids_and_metadata_survive_a_saved_script(kata):
    node = nbformat.read(kata.notebook, as_version=4)
    node.metadata["mine"] = 1
    nbformat.write(node, kata.notebook)
    sync(kata)
    kata.stub.write_text(ANSWER + "\n\n# %%\nprint(double(2))\n\n# %%\nprint(double(2))\n")
    sync(kata)
    after = nbformat.read(kata.notebook, as_version=4)
    nbformat.validate(after)
    assert after.metadata["mine"] == 1
    assert [cell.id for cell in node.cells] == [cell.id for cell in after.cells][: len(node.cells)]


def test_both_changed_is_a_conflict_that_keeps_both(kata):
    kata.stub.write_text(ANSWER)
    edit_notebook(kata)
    book = kata.notebook.read_bytes()
    for _ in range(2):
        with pytest.raises(Conflict) as caught:
            sync(kata)
        assert "katas/basics/double.py and notebooks/basics/double.ipynb have both changed" in str(caught.value)
        assert "`nox -s sync -- double --from script`" in str(caught.value)
        assert "--from notebook" in str(caught.value)
        assert (kata.stub.read_text(), kata.notebook.read_bytes()) == (ANSWER, book)


@pytest.mark.parametrize("source", ["script", "notebook"])
def test_a_conflict_ends_as_the_user_says_and_the_loser_is_kept(kata, source):
    kata.stub.write_text(ANSWER)
    edit_notebook(kata)
    book = kata.notebook.read_bytes()
    assert sync(kata, source)
    winner = "return x + x" if source == "script" else "return 2 * x"
    assert winner in kata.stub.read_text()
    assert winner in answer_cell(kata).source
    assert (book if source == "script" else ANSWER.encode()) in kept(kata)
    assert sync(kata) is None


def test_both_changed_to_the_same_is_no_conflict(kata):
    kata.stub.write_text(ANSWER)
    edit_notebook(kata, new="return x + x")
    run_notebook(kata)
    assert sync(kata) is None
    assert pending(kata) == set()
    assert cells(kata)[1].outputs


def test_a_pull_of_a_newer_master_is_no_conflict(kata):
    change_master(kata)
    build.build(root=kata.root)
    assert pending(kata) == {"script", "notebook"}
    assert sync(kata) is None
    assert pending(kata) == set()


def test_a_stub_newer_than_its_notebook_does_not_pass_for_agreement(kata):
    forget(kata)
    change_master(kata)
    kata.stub.write_text(master.stub_text(kata))
    assert sync(kata)
    assert "Two times" in answer_cell(kata).source


@pytest.mark.parametrize("state", [None, "", "{", "[1]", '{"double": 3}', '{"double": {}}', "\0"])
def test_lost_or_broken_state_loses_nothing(kata, state):
    if state is None:
        forget(kata)
    else:
        (kata.home / "sync.json").write_text(state)
    kata.stub.write_text(ANSWER)
    edit_notebook(kata)
    with pytest.raises(Conflict):
        sync(kata)
    assert kata.stub.read_text() == ANSWER
    assert "return 2 * x" in answer_cell(kata).source


def test_the_first_sync_prefers_the_side_that_has_been_worked_in(kata):
    forget(kata)
    kata.stub.write_text(ANSWER)
    assert "notebook" in sync(kata)
    assert "return x + x" in answer_cell(kata).source
    progress.reset(kata)
    forget(kata)
    edit_notebook(kata)
    assert "katas/basics/double.py brought up to date" in sync(kata)
    assert "return 2 * x" in kata.stub.read_text()


def test_a_first_sync_does_not_take_notes_for_nothing(kata):
    forget(kata)
    kata.stub.write_text(ANSWER)
    edit_notebook(kata, old="# Double", new="# Double\n\nmy notes")
    with pytest.raises(Conflict):
        sync(kata)


def test_a_missing_notebook_is_made_from_the_script(kata):
    kata.stub.write_text(ANSWER)
    kata.notebook.unlink()
    assert sync(kata) == "notebooks/basics/double.ipynb made from katas/basics/double.py"
    assert "return x + x" in answer_cell(kata).source
    assert "worked in" in build.build(root=kata.root)[1][0]


def test_a_missing_script_is_made_from_the_notebook(kata):
    edit_notebook(kata)
    kata.stub.unlink()
    assert sync(kata) == "katas/basics/double.py made from notebooks/basics/double.ipynb"
    assert kata.stub.read_text() == STUB.replace("raise NotImplementedError", "return 2 * x", 1)


def test_with_both_missing_it_says_how_to_get_them(kata):
    kata.stub.unlink()
    kata.notebook.unlink()
    with pytest.raises(SyncError, match=r"neither katas/basics/double\.py nor notebooks/.* is there: `nox -s reset"):
        sync(kata)


def test_a_missing_side_cannot_be_the_one_to_keep(kata):
    kata.notebook.unlink()
    with pytest.raises(SyncError, match=r"notebooks/basics/double\.ipynb is not there"):
        sync(kata, "notebook")
    assert kata.stub.read_text() == STUB


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is no notebook: it is empty"),
        ("{", "it is no JSON"),
        ("[]", "it is JSON without cells"),
        ("{}", "it is JSON without cells"),
        ('{"cells": 3, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', "no notebook that nbformat can read"),
        ('{"cells": [], "metadata": {}, "nbformat": 9}', r"\(Unsupported nbformat version 9\)"),
        ('{\n<<<<<<< HEAD\n "cells": []\n=======\n>>>>>>> x\n}', r"Git's conflict markers \(line 2\)"),
        ("\xff\xfe", r"it is not UTF-8 text \(byte 0\)"),
    ],
)
@pytest.mark.parametrize("script", [STUB, ANSWER])
def test_a_broken_notebook_is_named_and_left_alone(kata, content, reason, script):
    kata.notebook.write_bytes(content.encode("latin-1"))
    kata.stub.write_text(script)
    with pytest.raises(SyncError, match=rf"notebooks/basics/double\.ipynb.*{reason}") as caught:
        sync(kata)
    assert not isinstance(caught.value, Conflict)
    assert "`nox -s sync -- double --from script`" in str(caught.value)
    assert kata.notebook.read_bytes() == content.encode("latin-1")
    assert kata.stub.read_text() == script
    assert sync(kata, "script")
    assert content.encode("latin-1") in kept(kata)
    nbformat.validate(nbformat.read(kata.notebook, as_version=4))


def test_a_notebook_of_the_third_format_is_read_for_what_it_holds(kata):
    cells = [{"cell_type": "code", "input": ANSWER, "outputs": [], "language": "python", "metadata": {}}]
    old = {"nbformat": 3, "nbformat_minor": 0, "metadata": {"name": ""}, "worksheets": [{"cells": cells}]}
    kata.notebook.write_text(json.dumps(old))
    assert "katas/basics/double.py brought up to date" in sync(kata)
    assert ANSWER.split()[-1] in kata.stub.read_text()
    assert "return" in options.read(kata.notebook)


def test_an_attempt_that_is_no_notebook_is_one_sentence_with_the_next_step(tmp_path):
    path = tmp_path / "mine.ipynb"
    path.write_text("")
    with pytest.raises(Trouble) as caught:
        options.read(path)
    assert str(caught.value) == f"{path} is no notebook: it is empty. Save it from Jupyter, or name a Python file"


def test_build_says_of_a_broken_notebook_what_it_is(kata):
    kata.notebook.write_text("")
    clean, said = build.build(root=kata.root)
    assert clean
    assert said == [
        "notebooks/basics/double.ipynb is no notebook: it is empty: left as it is. "
        "`nox -s reset -- double` makes both afresh and keeps a copy."
    ]


def test_conflict_markers_in_the_script_go_nowhere(kata):
    broken = STUB.replace("import math", "<<<<<<< HEAD\nimport math\n=======\n>>>>>>> theirs")
    kata.stub.write_text(broken)
    book = kata.notebook.read_bytes()
    with pytest.raises(SyncError, match=r"katas/basics/double\.py has Git's conflict markers \(line \d+\)"):
        sync(kata)
    assert (kata.stub.read_text(), kata.notebook.read_bytes()) == (broken, book)


def test_a_script_that_is_not_utf8_goes_nowhere(kata):
    kata.stub.write_bytes(ANSWER.encode() + b"# \xe9\n")
    with pytest.raises(SyncError, match="is not UTF-8"):
        sync(kata)


def test_a_script_with_a_syntax_error_still_arrives(kata):
    broken = ANSWER.replace("return x + x", "return (")
    kata.stub.write_text(broken)
    assert sync(kata)
    edit_notebook(kata, old="return (", new="return x")
    assert sync(kata)
    assert kata.stub.read_text() == broken.replace("return (", "return x")


def test_windows_newlines_are_no_change_and_are_kept(kata):
    kata.stub.write_bytes(STUB.replace("\n", "\r\n").encode())
    assert sync(kata) is None
    edit_notebook(kata)
    sync(kata)
    content = kata.stub.read_bytes()
    assert b"return 2 * x\r\n" in content
    assert b"\n" not in content.replace(b"\r\n", b"")
    kata.stub.write_bytes(content.replace(b"2 * x", b"3 * x"))
    sync(kata)
    assert "return 3 * x" in answer_cell(kata).source
    assert "\r" not in kata.notebook.read_text()


def test_magics_and_markdown_of_the_notebook_survive_a_round_trip(kata):
    node = nbformat.read(kata.notebook, as_version=4)
    extra = ["%timeit double(3)", "!ls", "# plain\nx = 1", "import os; os.sep"]
    node.cells += [nbformat.v4.new_code_cell(source) for source in extra]
    node.cells += [nbformat.v4.new_markdown_cell("# Title\n\n- $x$ \\ y\n\n```python\n# %%\n```")]
    nbformat.write(node, kata.notebook)
    sync(kata)
    compile(kata.stub.read_text(), "stub", "exec")
    script = kata.stub.read_text()
    kata.stub.write_text(script.replace("import math", "import math, cmath"))
    sync(kata)
    assert sync(kata) is None
    assert [c.source for c in cells(kata)][-5:-2] == ["%timeit double(3)", "!ls", "# plain\nx = 1"]


def test_a_linked_script_stays_a_link(kata, tmp_path):
    home = tmp_path / "elsewhere.py"
    kata.stub.rename(home)
    kata.stub.symlink_to(home)
    edit_notebook(kata)
    sync(kata)
    assert kata.stub.is_symlink()
    assert "return 2 * x" in home.read_text()


def test_old_copies_are_forgotten_only_beyond_the_limit(tmp_path):
    for number in range(6):
        files.keep(tmp_path / "kept", tmp_path / "a.py", str(number).encode(), at_most=3)
    assert sorted(path.read_text() for path in (tmp_path / "kept").iterdir()) == ["3", "4", "5"]
    files.keep(tmp_path / "kept", tmp_path / "a.py", b"5", at_most=3)
    assert len([*(tmp_path / "kept").iterdir()]) == 3


def test_recording_takes_both_sides_as_agreed(kata):
    kata.stub.write_text(ANSWER)
    edit_notebook(kata)
    record(kata)
    assert sync(kata) is None
    assert json.loads((kata.home / "sync.json").read_text())["double"].keys() == {"script", "notebook"}


def test_the_script_keeps_its_own_header_and_gets_none(kata):
    edit_notebook(kata)
    sync(kata)
    assert kata.stub.read_text().startswith("# %% [markdown]\n# # Double\n")
    kata.stub.write_text(OLD_HEADER.replace("name: python3", "name: my-kernel") + kata.stub.read_text())
    sync(kata)
    edit_notebook(kata, "return 2 * x", "return x * 2")
    sync(kata)
    assert kata.stub.read_text().startswith("# ---\n# jupyter:\n")
    assert "#     name: my-kernel" in kata.stub.read_text()
    assert "return x * 2" in kata.stub.read_text()
    assert script_text(nbformat.read(kata.notebook, as_version=4), None).startswith("# %% [markdown]\n# # Double\n")


def test_a_grading_leaves_a_notebook_that_nobody_has_opened_as_it_is(kata):
    book = kata.notebook.read_bytes()
    kata.stub.write_text(ANSWER)
    for _ in range(2):
        assert sync(kata, opened=True) is None
        assert kata.notebook.read_bytes() == book
    forget(kata)
    assert sync(kata, opened=True) is None
    kata.notebook.unlink()
    assert sync(kata, opened=True) is None
    assert not kata.notebook.exists()
    assert sync(kata) == "notebooks/basics/double.ipynb made from katas/basics/double.py"  # when it is asked for
    kata.stub.write_text(ANSWER.replace("x + x", "x + x + 0"))
    assert "brought up to date" in sync(kata, opened=True), "and from then on it follows"


def test_a_grading_follows_a_notebook_with_work_in_it_both_ways(kata):
    edit_notebook(kata)
    assert "katas/basics/double.py brought up to date" in sync(kata, opened=True)
    kata.stub.write_text(kata.stub.read_text().replace("2 * x", "3 * x"))
    assert "notebooks/basics/double.ipynb brought up to date" in sync(kata, opened=True)
    assert "return 3 * x" in answer_cell(kata).source
    progress.reset(kata)
    run_notebook(kata)  # to have run it is to have opened it
    kata.stub.write_text(ANSWER)
    assert "notebooks/basics/double.ipynb brought up to date" in sync(kata, opened=True)


@pytest.mark.parametrize("opened", [False, True])
@pytest.mark.parametrize("worked", ["script", "notebook", "both"])
@pytest.mark.parametrize("taken_back", [["script"], ["notebook"], ["script", "notebook"]])
def test_what_git_takes_back_is_no_conflict_and_nothing_is_lost(kata, worked, taken_back, opened):
    """`git checkout` of a side makes it what the build wrote; work is then in the other side, or among the copies."""
    paths = {"script": kata.stub, "notebook": kata.notebook}
    built = {side: path.read_bytes() for side, path in paths.items()}
    if worked == "notebook":
        edit_notebook(kata, new="return x + x")
    else:
        kata.stub.write_text(ANSWER)
    sync(kata)
    if worked == "both":
        edit_notebook(kata, "# Double", "# Double\n\nmy notes")
        sync(kata)
    for side in taken_back:
        paths[side].write_bytes(built[side])
    sync(kata, opened=opened)
    assert sync(kata, opened=opened) is None
    held = [path.read_text() for path in paths.values()] + [copy.decode() for copy in kept(kata)]
    assert len(taken_back) == 2 or any("return x + x" in text for text in held)
    if worked == "script" and "script" in taken_back:
        assert kata.stub.read_text() == STUB, "the notebook was a copy, and its user has taken the work back"


def test_a_notebook_as_built_never_wins_over_work_in_the_script(kata):
    built = kata.notebook.read_bytes()
    kata.stub.write_text(ANSWER)
    sync(kata)
    kata.stub.write_text(ANSWER + "# more\n")
    sync(kata)
    kata.notebook.write_bytes(built)
    assert "notebooks/basics/double.ipynb brought up to date" in sync(kata)
    assert kata.stub.read_text() == ANSWER + "# more\n"


@pytest.mark.parametrize("side", ["script", "notebook"])
@pytest.mark.parametrize("opened", [False, True])
def test_what_is_no_file_is_told_in_a_sentence(kata, side, opened, tmp_path, monkeypatch):
    path = kata.stub if side == "script" else kata.notebook
    path.unlink()
    path.mkdir()
    with pytest.raises(SyncError, match=rf"{path.name} is a folder, where a file belongs: move it away"):
        sync(kata, opened=opened)
    path.rmdir()
    path.symlink_to(tmp_path / "gone")
    with pytest.raises(SyncError, match=rf"{path.name} is a link to .*gone, which is not there: put the file back"):
        sync(kata, opened=opened)
    assert "left as it is" in build.build(root=kata.root)[1][0]
    assert not (tmp_path / "gone").exists()
    path.unlink()
    path.write_text("")
    opening = type(path).open

    def refused(self, *words, **more):
        if self == path:
            raise PermissionError(13, "Permission denied")
        return opening(self, *words, **more)

    monkeypatch.setattr(type(path), "open", refused)
    with pytest.raises(SyncError, match=rf"{path.name} cannot be read \(Permission denied\): give yourself the right"):
        sync(kata, opened=opened)
