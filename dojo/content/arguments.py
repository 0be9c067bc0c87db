"""What a user says to a command, or in a form: read and checked, and refused in words. Needs argparse alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import date, timedelta


def positive(word: str) -> int:
    """A whole number above 0."""
    if not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"'{word}' is no number above 0")
    return int(word)


def number_of(unit: str, most: int) -> Callable[[str], float]:
    """A number of this unit above 0 and up to `most`."""

    def number(word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = 0.0
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"'{word}' is no number of {unit} between 0 and {most}")
        return value

    return number


def day_ahead(word: str) -> date:
    """A day of the year that begins today."""
    try:
        day = date.fromisoformat(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{word}' is no date: write year, month and day, as in 2026-12-10") from None
    today = date.today()
    if not today <= day <= today + timedelta(366):
        wrong = "has passed" if day < today else "is more than a year away"
        raise argparse.ArgumentTypeError(f"{word} {wrong}: today is {today}")
    return day
