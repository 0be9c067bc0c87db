"""The katas that a command line names."""

from __future__ import annotations

from collections.abc import Iterable

from dojo.content import catalog, files
from dojo.content.catalog import Kata, Trouble


def selected(words: list[str]) -> list[Kata]:
    """The katas that the words name, each a kata, a track or `all`. Raises Trouble."""
    katas = catalog.select(words)
    check_files(katas)
    return katas


def selected_one(word: str) -> Kata:
    """The one kata of that name. Raises Trouble."""
    kata = catalog.one(word)
    check_files([kata])
    return kata


def check_files(katas: Iterable[Kata]) -> None:
    """Raises Trouble where a folder, a link to nothing or what may not be read is in the place of a kata's file."""
    for kata in katas:
        for path in (kata.stub, kata.notebook):
            if why := files.fault(path):
                raise Trouble(f"{kata.say(path)} {why}")
