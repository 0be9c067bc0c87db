"""A course's template repository: stubs alone, and workflows that grade every push."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest
import yaml

from dojo.cli import main
from dojo.cohort.outputs.starter.repository import contents
from dojo.content import catalog, master
from dojo.content.catalog import ROOT

KATAS = [catalog.katas()[name] for name in ("gqa", "rope")]
GITHUB, GITLAB = ".github/workflows/classroom.yml", ".gitlab-ci.yml"


def starter(*words: str) -> int:
    return main.main(["starter", *words])


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    assert starter("--katas", "gqa, rope", "--out", str(tmp_path / "class")) == 0
    return tmp_path / "class"


def test_it_holds_stubs_a_page_and_workflows_and_no_solution(repository: Path) -> None:
    found = {
        str(path.relative_to(repository)): path.read_text("utf-8") for path in repository.rglob("*") if path.is_file()
    }
    stubs = {kata.say(kata.stub): kata for kata in KATAS}
    assert set(found) == {*stubs, "README.md", ".gitignore", GITHUB, GITLAB}
    for name, kata in stubs.items():
        assert master.is_untouched(kata, found[name])
        answer = {line.strip() for line in master.read_text(kata.master).splitlines()} - {
            line.strip() for line in master.stub_text(kata).splitlines()
        }
        assert not any(line.strip() in answer for text in found.values() for line in text.splitlines())
    assert "| `katas/attention/gqa.py` | Grouped-query attention | 3 | 20 |" in found["README.md"]
    assert not any(re.search(r"(?<!\{)\{\w+\}(?!\})", found[name]) for name in (GITHUB, GITLAB, "README.md"))


def graded_by(line: str) -> argparse.Namespace:
    """What a workflow's line asks of `grade`."""
    program, command, *words = shlex.split(line)
    assert (program, command) == ("dojo", "grade")
    return main.COMMANDS[command].parser(argparse.ArgumentParser).parse_intermixed_args(words)


def test_the_github_workflow_grades_every_push_and_gives_each_tier_its_points() -> None:
    flow = yaml.safe_load(contents(KATAS)[GITHUB])
    assert {"push", "repository_dispatch"} <= set(flow[True])  # YAML 1.1 reads `on` as a truth value
    assert flow["permissions"] == {"checks": "write", "actions": "read", "contents": "read"}
    (job,) = flow["jobs"].values()
    assert job["timeout-minutes"] <= 30
    assert "github-classroom[bot]" in job["if"]
    (asked,) = (graded_by(step["run"]) for step in job["steps"] if step.get("name") == "Grade")
    assert (asked.names, asked.attempt, asked.github) == (["gqa", "rope"], Path("."), True)
    steps = {step["id"]: step for step in job["steps"] if "id" in step}
    assert list(steps) == [f"{kata}_{tier}" for kata in ("gqa", "rope") for tier in ("core", "robust", "fast")]
    for name, step in steps.items():
        kata, tier = name.rsplit("_", 1)
        assert f'select(.kata == "{kata}")' in step["with"]["command"]
        assert f".tiers.{tier} ==" in step["with"]["command"]
        assert step["with"]["command"].endswith(str(asked.json).replace("$RUNNER_TEMP", "${{ runner.temp }}"))
    reporter = job["steps"][-1]
    assert reporter["with"]["runners"].split(",") == list(steps)
    assert reporter["env"] == {f"{n.upper()}_RESULTS": f"${{{{ steps.{n}.outputs.result }}}}" for n in steps}


def test_the_gitlab_pipeline_grades_and_keeps_the_report() -> None:
    job = yaml.safe_load(contents(KATAS, "https://gitlab.example.org/me/dojo.git")[GITLAB])
    assert job["variables"]["DOJO"] == "https://gitlab.example.org/me/dojo.git"
    (line,) = job["grade"]["script"]
    asked = graded_by(line)
    assert (asked.names, asked.attempt) == (["gqa", "rope"], Path("."))
    assert job["grade"]["artifacts"]["when"] == "always"
    assert job["grade"]["artifacts"]["reports"] == {"junit": str(asked.junit)}
    assert {str(asked.html), str(asked.json)} == set(job["grade"]["artifacts"]["paths"])


@pytest.mark.parametrize(("copy", "written"), [("classroom.yml", GITHUB), ("gitlab-ci.yml", GITLAB)])
def test_the_files_to_copy_are_what_is_written(copy: str, written: str) -> None:
    text = (ROOT / "docs" / "classroom" / copy).read_text("utf-8")
    assert text == contents(KATAS)[written], f"copy {written} of `starter --katas gqa,rope --out DIR` to docs/classroom"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--katas", "gqq", "--out", "new"], "no kata or track is called 'gqq': did you mean gqa"),
        (["--katas", "gqa", "--out", "."], "--out .: there is something there already: name a new folder"),
        (["--katas", "gqa", "--out", "new", "--dojo", "x\n  evil: 1"], "that is no address that git can clone"),
        (["--katas", " ,", "--out", "new"], "--katas names none"),
    ],
)
def test_what_cannot_be_is_told_and_nothing_is_written(
    words: list[str], said: str, tmp_path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.txt").write_text("mine")
    assert starter(*words) == 2
    assert said in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
