"""The graders' own proof: stubs are not started, right attempts pass, every mistake is rejected, known bugs by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from dojo import build, catalog, hunt
from dojo.bugs import Bug
from tests.conftest import Grade, failures, told

KATAS = catalog.katas()
RIGHT = sorted((Path(__file__).parent / "attempts").glob("*/*.py"))
WRONG = sorted((Path(__file__).parent / "mistakes").glob("*/*.py"))
FEWEST_BUGS = {"rope": 12, "mha": 12, "gqa": 12, "lm": 12}


def bugs_of(kata: catalog.Kata) -> list[Bug]:
    """The table of known bugs of a kata's grader; none where the grader is missing, which a test below tells."""
    if not kata.grader.exists():
        return []
    return hunt.bugs_of(kata)


BUGS = [(name, bug) for name, kata in KATAS.items() for bug in bugs_of(kata)]


@pytest.mark.parametrize("name", KATAS)
def test_solution_passes(name: str, graded: Grade) -> None:
    verdict = graded(name, build.read_text(KATAS[name].master))
    assert verdict.verdict == "passed", told(verdict)


@pytest.mark.parametrize("name", KATAS)
def test_stub_is_not_started(name: str, graded: Grade) -> None:
    assert graded(name, build.stub_text(KATAS[name])).verdict == "empty"


@pytest.mark.parametrize("path", RIGHT, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_right_attempt_passes(path: Path, graded: Grade) -> None:
    verdict = graded(path.parent.name, path.read_text())
    assert verdict.verdict == "passed", told(verdict)


@pytest.mark.parametrize("path", WRONG, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_subtle_mistake_is_rejected(path: Path, graded: Grade) -> None:
    """Each is right but for what its first line says, and passed an earlier grader."""
    verdict = graded(path.parent.name, path.read_text(), stop_at_first=True)
    assert verdict.verdict == "failed"
    assert all(check.outcome != "grader error" for check in verdict.checks), told(verdict)


@pytest.mark.parametrize(("name", "bug"), BUGS, ids=[f"{name}-{bug.name}" for name, bug in BUGS])
def test_known_bug_is_rejected_and_diagnosed_by_name(name: str, bug: Bug, graded: Grade) -> None:
    verdict = graded(name, bug.plant(build.read_text(KATAS[name].master)), until_diagnosed=True)
    assert verdict.verdict == "failed"
    assert {check.diagnosis for check in failures(verdict)} - {None} == {bug.name}, told(verdict)


@pytest.mark.parametrize("name", KATAS)
def test_kata_has_its_bugs_and_its_right_attempts(name: str) -> None:
    assert len(bugs_of(KATAS[name])) >= FEWEST_BUGS.get(name, 8)
    assert sum(path.parent.name == name for path in RIGHT) >= 5
