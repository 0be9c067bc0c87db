"""Code as the field writes it passes the core tier of every kata, whatever the robust tier has to say of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dojo.content import catalog
from tests.conftest import Grade, told

FIELD = sorted((Path(__file__).parent / "field").glob("*/*/*.py"))


@pytest.mark.parametrize("path", FIELD, ids=lambda path: f"kata_{path.parent.name}_{path.stem}")
def test_core_passes_what_the_field_writes(path: Path, graded: Grade) -> None:
    verdict = graded(path.parent.name, path.read_text("utf-8"), tier="core", diagnose=False)
    assert verdict.verdict == "passed", told(verdict)


@pytest.mark.parametrize("path", FIELD, ids=lambda path: f"kata_{path.parent.name}_{path.stem}")
def test_robust_fails_and_the_file_says_why(path: Path, graded: Grade) -> None:
    assert path.read_text("utf-8").startswith("# robust: ")
    verdict = graded(path.parent.name, path.read_text("utf-8"), tier="robust", diagnose=False)
    assert verdict.verdict == "failed", "it passes all: its place is among the right attempts"
    assert "in practice: " in told(verdict)


def test_every_field_attempt_is_of_a_kata() -> None:
    assert {path.parent.name for path in FIELD} <= catalog.katas().keys()
