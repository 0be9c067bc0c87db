"""Drills: one function or class from memory in five to ten minutes, and which katas are short enough to be one."""

from __future__ import annotations

import math

from dojo.content.catalog import Kata

LEVEL, PAR = 2, 15  # a kata of at most this level and par is a drill, whole; nothing is cut out of a larger one
SHORTEST, LONGEST = 5, 10  # minutes; from memory a kata has two thirds of its par, in which one also thinks it up


def fits(kata: Kata) -> bool:
    """Whether a kata is short enough to be a drill."""
    return kata.level <= LEVEL and kata.minutes <= PAR


def minutes(kata: Kata) -> int:
    """How long the drill of a kata may take."""
    return min(LONGEST, max(SHORTEST, math.ceil(2 * kata.minutes / 3)))
