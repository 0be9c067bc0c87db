"""Gradings on another device than the CPU: nothing of a check may be left behind there."""

from __future__ import annotations

import pytest

from dojo import abreast, catalog
from dojo.judge import nursery
from tests import elsewhere
from tests.conftest import SEED, told


@pytest.mark.parametrize("name", catalog.katas())
def test_solution_passes_on_another_device(name: str, zygote: nursery.Zygote) -> None:
    with abreast.Crew(elsewhere.graded, zygote, 1) as crew:
        (verdict,) = crew.map([(name, SEED)])
    assert verdict.device == elsewhere.NAME
    assert verdict.checks
    assert all(check.outcome.harmless for check in verdict.checks), told(verdict)
