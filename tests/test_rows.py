"""Rows: how they are read, where they are refused, and what they never touch."""

from __future__ import annotations

from pathlib import Path

import pytest

from dojo.content import catalog, proofs
from dojo.content.rows import BadRow, Row, read, rows

MASTER = """# %% [markdown]
# Divide by `total`, as in y = x / total.

# %%
def f(x):
    ### BEGIN SOLUTION
    total = x.sum()
    y = x / total
    ### HANDED OUT
    # y = x
    ### END SOLUTION
    return y
"""


def planted(text: str) -> str:
    (row,) = rows(text)
    return row.plant(MASTER)


def test_an_edit_replaces_what_stands_once_in_the_code_and_leaves_prose_alone() -> None:
    source = planted("no sum\n    why.\n    y = x / total  →  y = x\n")
    assert "# Divide by `total`, as in y = x / total." in source
    assert "    y = x\n" in source
    assert "# y = x" not in source  # what is handed out is no part of the answer


def test_new_text_goes_on_at_the_margin_and_nothing_takes_a_line_out() -> None:
    source = planted("twice\n    y = x / total\n        →  y = x\n        y = y / total\n    total = x.sum()  →\n")
    assert "    y = x\n    y = y / total\n" in source
    assert "total = x.sum()" not in source


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a\n    total  →  z\n", "here.txt:1: 'total' stands twice (lines 7, 8)"),
        ("\n\na\n    nothing  →  z\n", "here.txt:3: 'nothing' does not stand in the code"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_line(text: str, told: str) -> None:
    (row,) = rows(text, "here.txt")
    assert not row.fits(MASTER)
    with pytest.raises(BadRow) as error:
        row.plant(MASTER)
    assert str(error.value) == told


def test_a_row_has_a_name_reasons_edits_a_mark_and_a_place() -> None:
    assert rows("a  [raises]\n    why\n    so.\n    x  →  y\nb [c]\n    z  →  w\n", "f") == [
        Row("a", "why so.", (("x", "y"),), "raises", "f:1"),
        Row("b [c]", "", (("z", "w"),), "", "f:5"),
    ]


@pytest.mark.parametrize("text", ["    no name\n    x  →  y\n", "a\n    →  y\n"])
def test_what_is_no_row_is_refused(text: str) -> None:
    with pytest.raises(BadRow, match="rows:1"):
        rows(text)


@pytest.fixture
def kata(tmp_path: Path) -> catalog.Kata:
    """mqa, which builds on mha, in a project of its own that may be spoiled."""
    import shutil

    for folder in ("solutions", "graders", "katas"):
        shutil.copytree(catalog.ROOT / folder / "attention", tmp_path / folder / "attention")
    return catalog.katas(tmp_path)["mqa"]


def test_bugs_are_taken_over_unless_they_are_not_here(kata: catalog.Kata) -> None:
    every = {bug.name for bug in proofs.bugs(kata)}
    own = {bug.name for bug in proofs.own_bugs(kata)}
    assert "no scale" in every - own
    table = kata.proofs / "wrong.txt"
    table.write_text(f"no scale  [not here]\n    It has none.\n\n{table.read_text()}")
    assert {bug.name for bug in proofs.bugs(kata)} == every - {"no scale"}


def test_a_mark_that_asks_for_an_edit_or_for_none_is_held_to_it(kata: catalog.Kata) -> None:
    table = kata.proofs / "wrong.txt"
    before = table.read_text()
    table.write_text(f"{before}\nforgotten  [mistake]\n    No edit.\n")
    with pytest.raises(BadRow, match=r"wrong.txt:\d+: 'forgotten' has no edit: a line `old  →  new` is missing"):
        proofs.mistakes(kata)
    table.write_text(f"{before}\nmha  [builds on]\n    x  →  y\n")
    with pytest.raises(BadRow, match="'mha' has an edit: a line `old  →  new` does not belong here"):
        proofs.bugs(kata)


def test_a_line_stands_for_another_answer_be_it_right_or_the_fields(kata: catalog.Kata) -> None:
    (kata.proofs / "field" / "pasted.py").write_text("# with attention/mha/one\n# with attention/mha/other\n")
    for style in ("right/one", "field/other"):
        path = kata.proofs.parent / "mha" / f"{style}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{style[:5]} = 1\n")
    assert proofs.field(kata)["pasted"].splitlines()[::2] == ["right = 1", "field = 1"]


def test_every_row_of_every_kata_knows_its_place() -> None:
    for kata in catalog.katas().values():
        for bug in proofs.bugs(kata):
            path, line = bug.place.split(":")
            assert (catalog.ROOT / path).read_text().split("\n")[int(line) - 1].startswith(bug.name)
    assert read(catalog.ROOT / "nothing.txt") == []
