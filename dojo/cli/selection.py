"""The katas that a command line names."""

from __future__ import annotations

from collections.abc import Iterable

from dojo.content import catalog, files, stages
from dojo.content.catalog import Kata, Trouble, typed


def selected_one(word: str) -> Kata:
    """The one kata of that name. Raises Trouble."""
    kata = catalog.one(word)
    check_files([kata])
    return kata


def check_stage(katas: Iterable[Kata], number: int = 1) -> None:
    """Raises Trouble where a kata does not have so many stages."""
    for kata in katas:
        count = len(stages.of(kata))
        if not count:
            ladders = ", ".join(each.name for each in catalog.katas().values() if stages.of(each))
            raise Trouble(f"{kata.name} asks for all at once, and has no stages: those that have are {ladders}")
        if number > count:
            raise Trouble(
                f"{kata.name} has {count} stages, and none of number {number}: `{typed(f'show {kata.name}')}`"
            )


def check_files(katas: Iterable[Kata]) -> None:
    """Raises Trouble where a folder, a link to nothing or what may not be read is in the place of a kata's file."""
    for kata in katas:
        for path in (kata.stub, kata.notebook):
            if why := files.fault(path):
                raise Trouble(f"{kata.say(path)} {why}")
