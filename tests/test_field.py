"""Code as the field writes it passes the core tier of every kata, whatever the robust tier has to say of it."""

from __future__ import annotations

import pytest

from dojo.content import catalog, proofs
from tests.conftest import Grade, told

FIELD = [(kata, style, source) for kata in catalog.katas().values() for style, source in proofs.field(kata).items()]
EACH = pytest.mark.parametrize(
    ("name", "source"),
    [(kata.name, source) for kata, _, source in FIELD],
    ids=[f"kata_{kata.name}_{style}" for kata, style, _ in FIELD],
)


@EACH
def test_core_passes_what_the_field_writes(name: str, source: str, graded: Grade) -> None:
    verdict = graded(name, source, tier="core", diagnose=False)
    assert verdict.verdict == "passed", told(verdict)


@EACH
def test_robust_fails_and_the_file_says_why(name: str, source: str, graded: Grade) -> None:
    assert source.startswith("# robust: ")
    verdict = graded(name, source, tier="robust", diagnose=False)
    assert verdict.verdict == "failed", "it passes all: its place is among the right attempts"
    assert "in practice: " in told(verdict)
