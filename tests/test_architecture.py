"""The rooms of the package: imports point downwards, folders stay small."""

from __future__ import annotations

import re
import sys

import pytest
from importlinter import api, cli

from dojo.content.catalog import ROOT

LAYERS = [
    {"cli"},
    {"notebook", "web"},
    {"cohort", "practice", "proving"},
    {"grading"},
    {"contracts"},
    {"judge"},
    {"verdict"},
    {"content"},
]


def test_imports_point_downwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", [*sys.path])  # import-linter adds to it
    (contract,) = api.read_configuration("pyproject.toml")["contracts_options"]
    assert [set(layer.split(" | ")) for layer in contract["layers"]] == LAYERS
    assert cli.lint_imports("pyproject.toml", no_cache=True, no_logo=True) == 0


def test_every_folder_is_a_layer() -> None:
    found = {path.name for path in (ROOT / "dojo").iterdir() if (path / "__init__.py").exists()}
    assert found == set().union(*LAYERS)


@pytest.mark.parametrize("room", sorted(set().union(*LAYERS)))
def test_the_page_about_the_architecture_names_every_module(room: str) -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    (row,) = (line for line in page.splitlines() if line.startswith(f"| `dojo/{room}` |"))
    told = set(re.findall(r"`([\w/]+)`", row.split("|")[3]))
    folder = ROOT / "dojo" / room
    found = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    found |= {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    assert told == found


def test_the_page_about_the_architecture_speaks_of_modules_that_are_there() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    told = re.findall(rf"`((?:{'|'.join(set().union(*LAYERS))})(?:\.\w+)+)`", page)
    assert told
    for name in told:
        path = ROOT / "dojo" / name.replace(".", "/")
        assert path.with_suffix(".py").exists() or path.is_dir(), name
