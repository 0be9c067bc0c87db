"""What the tests grade besides the solutions, by the name of a kata: right attempts in many styles, and mistakes."""

from __future__ import annotations

from dojo.content import catalog
from dojo.contracts.checks.candidate_test import corpus


def right_attempts(kata: str) -> dict[str, str]:
    """The right attempts at a kata, by style."""
    return corpus.right_attempts(catalog.katas()[kata])


def mistakes(kata: str) -> dict[str, str]:
    """Wrong attempts at a kata, by what is wrong with them."""
    return corpus.mistakes(catalog.katas()[kata])
