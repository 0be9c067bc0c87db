"""Anybody's words in a Markdown file, where they must mean nothing but themselves."""

from __future__ import annotations

import re

SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")


def plain(text: str) -> str:
    """A text in a line, as it is."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def fenced(text: str) -> list[str]:
    """Lines between fences that no line of theirs ends."""
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return [f"{fence}text", text, fence]
