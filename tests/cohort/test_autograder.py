"""The autograder for Gradescope: a zip that grades one submission where Gradescope lays it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dojo.cli import main
from dojo.content import catalog, master
from dojo.content.catalog import ROOT

SOFTMAX = catalog.katas()["softmax"]


@pytest.fixture(scope="module")
def autograder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as Gradescope's image has it, with this Python for the one that setup.sh would install."""
    where = tmp_path_factory.mktemp("autograder")
    (where / "course.toml").write_text(
        "[default]\ncore = 6\nrobust = 3\nfast = 1\n[visible]\ntiers = ['core']\n", "utf-8"
    )
    words = ["--katas", "softmax,rope", "--autograder", str(where / "a.zip"), "--course", str(where / "course.toml")]
    assert main.main(["starter", *words]) == 0
    with zipfile.ZipFile(where / "a.zip") as archive:
        archive.extractall(where / "source")
    python = where / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return where


def run(where: Path, **files: str) -> dict:
    """What `run_autograder` says of these files."""
    submission = where / "submission"
    submission.mkdir(exist_ok=True)
    for path in submission.iterdir():
        path.unlink()
    for name, text in files.items():
        (submission / f"{name}.py").write_text(text, "utf-8")
    (where / "results").mkdir(exist_ok=True)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("DOJO", "PYTHON"))}
    line = ["bash", str(where / "source" / "run_autograder")]
    ran = subprocess.run(
        line, env=environment | {"AUTOGRADER": str(where)}, cwd=where, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return json.loads((where / "results" / "results.json").read_text("utf-8"))


def test_a_right_answer_has_its_points_and_what_is_missing_is_told(autograder: Path) -> None:
    found = run(autograder, softmax=master.read_text(SOFTMAX.master), sofmax="x = 1")
    assert found["score"] == 10
    tests = {test["name"]: (test["score"], test["max_score"], test["visibility"]) for test in found["tests"]}
    assert tests["softmax: core"] == (6, 6, "visible")
    assert tests["softmax: robust"] == (3, 3, "hidden")
    assert tests["rope: core"] == (0, 6, "visible")
    assert "sofmax.py: no kata is called 'sofmax': did you mean softmax?" in found["output"]


def test_nothing_that_can_be_graded_is_no_crash(autograder: Path) -> None:
    found = run(autograder, softmax="")
    assert found["score"] == 0
    assert "softmax.py: it is empty" in found["output"]


def test_the_zip_holds_what_gradescope_runs_and_nobodys_data(autograder: Path) -> None:
    with zipfile.ZipFile(autograder / "a.zip") as archive:
        names = set(archive.namelist())
        modes = {name: archive.getinfo(name).external_attr >> 16 for name in ("setup.sh", "run_autograder")}
        told = json.loads(archive.read("autograder.json"))
    assert all(mode & stat.S_IXUSR for mode in modes.values())
    assert {name.partition("/")[0] for name in names} == {
        *("setup.sh", "run_autograder", "autograder.json", "requirements.txt", "constraints.txt", "project"),
    }
    assert not any("__pycache__" in name or "/tests/" in name for name in names)
    assert (told["katas"], told["visible"]) == (["softmax", "rope"], ["core"])
    assert set(told) == {"katas", "seed", "rubric", "visible"}


@pytest.mark.parametrize("name", ["setup.sh", "run_autograder.sh"])
def test_the_scripts_are_bash(name: str) -> None:
    path = ROOT / "dojo" / "cohort" / "outputs" / "starter" / name
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--wheels", "."], "has no wheel of cloudpickle, einops,"),
        (["--index", "file; rm"], "--index file; rm: that is no address"),
    ],
)
def test_what_cannot_be_is_told(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["starter", "--katas", "gqa", "--autograder", str(tmp_path / "a.zip"), *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "a.zip").exists()
