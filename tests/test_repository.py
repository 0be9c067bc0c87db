"""What stands around the code: papers, versions, commands and links that are written down hold."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from dojo.cli.commands import COMMANDS
from dojo.content import catalog, proofs

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PAPERS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*_*.yml"))
FENCE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)

each_paper = pytest.mark.parametrize("paper", PAPERS, ids=lambda path: str(path.relative_to(ROOT)))


def sessions() -> set[str]:
    """The names of the noxfile's sessions: the commands, and functions of its own."""
    tree = ast.parse((ROOT / "noxfile.py").read_text("utf-8"))
    found = {*COMMANDS}
    for function in tree.body:
        if isinstance(function, ast.FunctionDef) and not function.name.startswith("_"):
            for mark in filter(lambda mark: "nox.session" in ast.unparse(mark), function.decorator_list):
                words = {word.arg: word.value for word in getattr(mark, "keywords", [])}
                found.add(ast.literal_eval(words["name"]) if "name" in words else function.name)
    return found


def anchors(paper: Path) -> set[str]:
    """What GitHub lets a link to a heading of this file end in."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", paper.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def yaml_of(*parts: str) -> dict:
    return yaml.safe_load(ROOT.joinpath(*parts).read_text("utf-8"))


def test_the_licence_is_the_one_that_the_package_states() -> None:
    assert (ROOT / "LICENSE").read_text("utf-8").startswith(f"{PROJECT['license']} License\n")


def test_the_changelog_begins_with_this_version() -> None:
    versions = re.findall(r"^## \[(.+?)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert versions[0] == PROJECT["version"]
    assert versions == sorted(versions, key=lambda version: [int(part) for part in version.split(".")], reverse=True)


@each_paper
def test_commands_that_are_written_down_exist(paper: Path) -> None:
    text = paper.read_text("utf-8")
    missing = set(re.findall(r"\bnox (?:--no-venv )?-s ([\w-]+)", text)) - sessions()
    missing |= {script for script in re.findall(r"\bpython (\w+/\w+\.py)", text) if not (ROOT / script).is_file()}
    assert not missing


@each_paper
def test_links_lead_somewhere(paper: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", paper.read_text("utf-8"))):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = paper.parent / path if path else paper
        assert target.exists(), f"{link}: there is no such file"
        assert not anchor or anchor in anchors(target), f"{link}: there is no such heading"


def test_every_push_runs_the_tests_as_a_contributor_does() -> None:
    workflow = yaml_of(".github", "workflows", "ci.yml")
    assert {"push", "pull_request"} <= set(workflow[True])  # YAML 1.1 reads `on` as a truth value
    assert workflow["permissions"] == {"contents": "read"}
    assert "bash .ci/run" in [step.get("run") for step in workflow["jobs"]["linux"]["steps"]]
    versions = workflow["jobs"]["linux"]["strategy"]["matrix"]["python"]
    assert PROJECT["requires-python"] == f">={versions[0]}"
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    runs = [step["run"].split() for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    assert {words[2] for words in runs if words[:2] == ["nox", "-s"]} <= sessions()


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.stem)
def test_a_form_asks_for_what_repeats_a_verdict(form: Path) -> None:
    asked = yaml_of(form)
    assert asked["name"]
    assert asked["description"]
    fields = {field["id"]: field for field in asked["body"] if field["type"] != "markdown"}
    assert set(fields) == {"kata", "file", "seed", "verdict", "expected", "torch", "system", "device"}
    assert fields["file"]["attributes"]["render"] == "python"
    for field in fields.values():
        assert field["attributes"]["label"]
        assert field["validations"] == {"required": True}


def test_hooks_need_nothing_from_elsewhere() -> None:
    assert yaml_of(".github", "ISSUE_TEMPLATE", "config.yml")["blank_issues_enabled"] is True
    repositories = yaml_of(".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    for hook in repositories[0]["hooks"]:
        assert hook["entry"].split()[:2] == ["nox", "-s"]
        assert hook["entry"].split()[2] in sessions()


def test_bugs_of_published_code_have_the_names_that_verdicts_give_them() -> None:
    page = " ".join((ROOT / "docs" / "in_the_wild.md").read_text("utf-8").split())
    known = {bug.name for kata in catalog.katas().values() for bug in proofs.bugs(kata)}
    named = re.findall("“(.*?)”", page)
    assert named
    assert {*named} <= known
