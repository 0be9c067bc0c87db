"""How a kata stands for its user: passed or not, hints taken, the solution's disclosure, and a fresh start."""

from __future__ import annotations

from collections.abc import Iterable

from dojo.content import build, files, master, sync
from dojo.content.catalog import Kata
from dojo.practice import database
from dojo.practice.database import Unreadable
from dojo.verdict.types import CORE_ALONE


def has_passed(kata: Kata) -> bool:
    """Whether the kata was ever passed by this user. Raises Unreadable."""
    return kata.name in database.last_passes(kata.name)


def states(katas: Iterable[Kata]) -> tuple[dict[str, str], str]:
    """How the user's attempts stand, in words, by kata; and why it is not known what has passed, if it is not."""
    try:
        passes, core, trouble = database.last_passes(), database.last_passes(core=True), ""
    except Unreadable as unreadable:
        passes, core, trouble = {}, {}, f"it is not known what has passed: {unreadable}"
    return {kata.name: state(kata, passes.get(kata.name), core.get(kata.name)) for kata in katas}, trouble


def state(kata: Kata, passed: str | None, core: str | None = None) -> str:
    """How the user's attempt stands, in words; `passed` is the text that passed last, `core` the core tier's."""
    try:
        text = master.read_text(kata.stub) if kata.stub.exists() else None
    except UnicodeDecodeError:
        return "not UTF-8"
    if text is not None and passed is not None and text == _plain(passed):
        return "passed"
    if text is not None and core is not None and text == _plain(core):
        return CORE_ALONE
    if text is not None and not master.is_untouched(kata, text):
        return "in progress" if passed is None else "passed, edited since"
    if kata.notebook.exists() and "notebook" in sync.pending(kata) and not build.as_built(kata)[1]:
        return "in progress, in the notebook"
    return "not started" if passed is None else "passed, fresh stub since"


def next_hint(kata: Kata, again: bool = False) -> str:
    """The next hint in Markdown, which then counts as taken; `again` starts over with the first."""
    hints = master.hints(kata)
    seen = 0 if again else hints_taken(kata)
    if seen >= len(hints):
        return (
            f"{kata.name} has no more hints than the {len(hints)} you have seen.\n\n"
            f"`nox -s hint -- {kata.name} --again` starts over; `nox -s reveal -- {kata.name} --spoil` is the answer."
        )
    files.update_state(kata.home / "hints.json", kata.name, seen + 1)
    return f"{kata.title}: hint {seen + 1} of {len(hints)}\n\n{hints[seen]}"


def hints_taken(kata: Kata) -> int:
    """How many hints the user has seen since the stub was fresh."""
    seen = files.read_state(kata.home / "hints.json").get(kata.name)
    return seen if isinstance(seen, int) else 0


def stays_hidden(kata: Kata, spoil: bool) -> str:
    """Why the solution is not shown yet; nothing when it may be."""
    if spoil:
        return ""
    try:
        if has_passed(kata):
            return ""
        why = f"{kata.name} is not passed yet, so its solution stays hidden."
    except Unreadable as unreadable:
        why = f"whether {kata.name} has passed is not known, so its solution stays hidden: {unreadable}."
    return (
        f"{why}\n`nox -s hint -- {kata.name}` helps a little; `nox -s reveal -- {kata.name} --spoil` shows all of it."
    )


def revealed(kata: Kata, spoil: bool = False) -> str:
    """The solution and what there is to say about it, in Markdown; or why it stays hidden."""
    code = master.solution_code(master.read_text(kata.master))
    return stays_hidden(kata, spoil) or f"```python\n{code}```\n\n{master.explanation(kata)}"


def write_lesson(kata: Kata) -> str:
    """Write the explained solution with its figures as a notebook. Returns the sentence that says where."""
    text = master.lesson_text(kata)
    node = build.notebook(text)
    node.metadata["jupytext"] = {"formats": "ipynb,py:percent"}  # a pair of their own: the master stays as it is
    kept = []
    for suffix, content in ((".py", text), (".ipynb", build.notebook_text(node))):
        path = kata.root / "lessons" / f"{kata.name}{suffix}"
        if path.exists() and path.read_bytes() != content.encode():
            kept.append(kata.say(files.keep(kata.home / "kept", path, path.read_bytes())))
        files.write_atomic(path, content)
    before = f" (before: {' and '.join(kept)})" if kept else ""
    return f"{kata.say(path)} is the explained solution with its figures{before}. `nox -s lab` opens JupyterLab."


def reset(kata: Kata) -> str:
    """Write a fresh stub and notebook; what the user had is kept. Returns the sentence that says where."""
    built = build.as_built(kata)
    sides = [(kata.stub, built[0]), (kata.notebook, built[1])]
    kept = [
        files.keep(kata.home / "kept", path, path.read_bytes()) for path, fresh in sides if path.exists() and not fresh
    ]
    build.write_fresh(kata)
    sync.record(kata)
    files.update_state(kata.home / "hints.json", kata.name, None)
    if not kept:
        return f"{kata.say(kata.stub)} is a fresh stub; there was no work to keep."
    return f"{kata.say(kata.stub)} is a fresh stub; what you had is in {' and '.join(map(kata.say, kept))}."


def _plain(text: str) -> str:
    return text.removeprefix("\ufeff").replace("\r\n", "\n")
