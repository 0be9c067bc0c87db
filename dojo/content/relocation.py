"""Moves files that still lie where they were before katas stood in track folders: katas/NAME.py, notebooks/NAME.ipynb.

Nothing is lost: a copy of every file found there goes to `.dojo/kept`, and a new place that has been worked in stays
as it is.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dojo.content import build, files, master, sync

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from dojo.content.catalog import Kata

# The grading cell looks for the project from the folder that the notebook is in.
OLD_PATH, NEW_PATH = 'sys.path.append("..")', 'sys.path.append("../..")'


def relocate(katas: Iterable[Kata]) -> list[str]:
    """Bring each kata's files from the old place to the new one; returns a sentence for every kata that had some."""
    return [said for kata in katas if (said := _relocate(kata))]


def _relocate(kata: Kata) -> str | None:
    places = {"script": (_old(kata.stub), kata.stub), "notebook": (_old(kata.notebook), kata.notebook)}
    found = {side: place for side, place in places.items() if place[0].is_file()}
    if not found:
        return None
    worked = {side for side, (old, _) in found.items() if _has_work(kata, side, old)}
    moved = worked if build.is_ours(kata) else set()
    kept = [kata.say(files.keep(kata.home / "kept", old, old.read_bytes())) for old, _ in found.values()]
    changed = {side for side in moved if sync.has_changed(kata, side, found[side][0])}
    for side, (old, new) in found.items():
        if side in moved:
            _move(old, new)
        old.unlink(missing_ok=True)
    if moved:
        sync.take_as_agreed(kata, places.keys() - changed)
    return _sentence(kata, found, moved, worked, kept)


def _old(path: Path) -> Path:
    return path.parent.parent / path.name


def _has_work(kata: Kata, side: str, old: Path) -> bool:
    if side == "notebook":
        return not build.is_fresh_notebook(old)
    try:
        text = master.read_text(old)
    except UnicodeDecodeError:
        return True
    moved = text.replace(OLD_PATH, NEW_PATH)
    return not any(build.is_fresh_script(kata, each, _old(kata.notebook)) for each in (text, moved))


def _move(old: Path, new: Path) -> None:
    if old.is_symlink():  # the attempt itself is kept elsewhere, and stays there
        new.parent.mkdir(parents=True, exist_ok=True)
        new.unlink(missing_ok=True)
        new.symlink_to(old.resolve())
        return
    content = old.read_bytes()
    for before, after in ((OLD_PATH, NEW_PATH), (json.dumps(OLD_PATH)[1:-1], json.dumps(NEW_PATH)[1:-1])):
        content = content.replace(before.encode(), after.encode())
    files.write_atomic(new, content)


def _sentence(
    kata: Kata, found: dict[str, tuple[Path, Path]], moved: set[str], worked: set[str], kept: list[str]
) -> str:
    olds = " and ".join(kata.say(old) for old, _ in found.values())
    copies = f"a copy is in {kept[0]}" if len(kept) == 1 else f"copies are in {' and '.join(kept)}"
    if moved:
        news = " and ".join(kata.say(new) for side, (_, new) in found.items() if side in moved)
        said = f"your work has moved to {news}"
    elif worked:
        said = f"but {kata.say(kata.stub)} or its notebook has been worked in too and stays as it is"
    else:
        said = "and nobody had worked in what lay at the old place"
    return f"{olds}: katas stand in track folders now, {said}; {copies}"
