"""List, hint, reveal and reset."""

import json

import pytest

from dojo import build, study, sync
from tests.test_build import STUB, make
from tests.test_sync import ANSWER, edit_notebook


@pytest.fixture
def kata(tmp_path):
    kata = make(tmp_path)
    build.build(root=tmp_path)
    sync.sync(kata)
    return kata


def test_the_state_follows_the_attempt(kata):
    assert study.state(kata) == "not started"
    kata.stub.write_text(STUB + "# thinking\n")
    assert study.state(kata) == "not started"
    kata.stub.write_text(ANSWER)
    assert study.state(kata) == "in progress"
    study.record_pass(kata, ANSWER)
    assert study.state(kata) == "passed"
    kata.stub.write_bytes(ANSWER.replace("\n", "\r\n").encode())
    assert study.state(kata) == "passed"
    kata.stub.write_text(ANSWER + "x = 1\n")
    assert study.state(kata) == "passed, edited since"
    study.reset(kata)
    assert study.state(kata) == "passed, fresh stub since"


def test_work_that_is_only_in_the_notebook_is_seen(kata):
    edit_notebook(kata)
    assert study.state(kata) == "in progress, in the notebook"
    kata.notebook.unlink()
    kata.stub.unlink()
    assert study.state(kata) == "not started"


def test_list_shows_every_kata_with_its_state(kata, capsys):
    kata.stub.write_text(ANSWER)
    assert study.show_list(kata.root) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if "double" in line)
    assert row.split() == ["basics", "double", "Double", "1", "5", "in", "progress"]
    assert "0 of 1 passed" in out


def test_each_hint_is_one_more_until_there_are_no_more(kata, capsys):
    said = []
    for again in (False, False, False, False, True, False):
        assert study.show_hint(kata, again=again) == 0
        said.append(capsys.readouterr().out.splitlines()[0])
    first, second, none = (
        "Double: hint 1 of 2",
        "Double: hint 2 of 2",
        "double has no more hints than the 2 you have seen.",
    )
    assert said == [first, second, none, none, first, second]


def test_a_broken_count_of_hints_starts_over(kata, capsys):
    (kata.home / "hints.json").write_text('{"double": "many"}')
    study.show_hint(kata)
    assert "hint 1 of 2" in capsys.readouterr().out


def test_the_solution_is_hidden_until_a_pass_or_spoil(kata, capsys):
    assert study.reveal(kata) == 1
    out = capsys.readouterr().out
    assert "not passed yet" in out
    assert "--spoil" in out
    assert "helper" not in out
    assert study.reveal(kata, spoil=True) == 0
    assert "helper(x)" in capsys.readouterr().out
    study.record_pass(kata, ANSWER)
    assert study.has_passed(kata)
    assert study.reveal(kata) == 0
    assert "It is a sum." in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "{", '["double"]', '{"double": null}', '{"double": true}'])
def test_broken_state_is_no_pass(kata, content):
    (kata.home / "passed.json").write_text(content)
    assert not study.has_passed(kata)
    study.record_pass(kata, ANSWER)
    assert study.has_passed(kata)


def test_reset_keeps_script_and_notebook_and_says_where(kata):
    kata.stub.write_text(ANSWER)
    sync.sync(kata)
    book = kata.notebook.read_bytes()
    study.show_hint(kata)
    said = study.reset(kata)
    script, notebook = sorted((kata.home / "kept").glob("double-*"), key=lambda path: path.suffix, reverse=True)
    assert script.read_text() == ANSWER
    assert notebook.read_bytes() == book
    assert f".dojo/kept/{script.name}" in said
    assert notebook.name in said
    assert kata.stub.read_text() == STUB
    assert build.build(check=True, root=kata.root) == (True, [])
    assert sync.sync(kata) is None
    assert "double" not in json.loads((kata.home / "hints.json").read_text())


def test_resets_in_the_same_second_keep_every_attempt(kata):
    for number in range(3):
        kata.stub.write_text(ANSWER + f"# {number}\n")
        study.reset(kata)
    kept = {path.read_text()[-2] for path in (kata.home / "kept").glob("*.py")}
    assert kept == {"0", "1", "2"}


def test_reset_of_an_untouched_stub_keeps_nothing(kata):
    assert study.reset(kata) == "katas/double.py is a fresh stub; there was no work to keep."
    assert not (kata.home / "kept").exists()


def test_reset_keeps_a_stub_whose_only_work_is_a_note(kata):
    kata.stub.write_text(STUB + "# my note\n")
    study.reset(kata)
    assert [path.read_text()[-10:] for path in (kata.home / "kept").glob("*.py")] == ["# my note\n"]


def test_reset_makes_files_that_are_missing_and_keeps_a_broken_notebook(kata):
    kata.stub.unlink()
    kata.notebook.write_text("{")
    study.reset(kata)
    assert kata.stub.read_text() == STUB
    assert [path.read_text() for path in (kata.home / "kept").glob("*.ipynb")] == ["{"]
