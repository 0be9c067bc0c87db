"""The small commands around grading: list, hint, reveal and reset."""

from __future__ import annotations

import sys
from pathlib import Path

from dojo import build, store, sync
from dojo.catalog import ROOT, Kata, katas
from dojo.screen import Screen

STYLES = {"passed": "green", "in progress": "yellow", "not started": "dim"}


def record_pass(kata: Kata, text: str) -> None:
    """Remember that this text of the kata's own stub passed."""
    store.update_state(_passed(kata), kata.name, _digest(text))


def has_passed(kata: Kata) -> bool:
    """Whether the kata was ever passed by this user."""
    return isinstance(store.read_state(_passed(kata)).get(kata.name), str)


def state(kata: Kata) -> str:
    """How the user's attempt stands, in words."""
    passed = store.read_state(_passed(kata)).get(kata.name)
    try:
        text = build.read_text(kata.stub) if kata.stub.exists() else None
    except UnicodeDecodeError:
        return "not UTF-8"
    if text is not None and passed == _digest(text):
        return "passed"
    if text is not None and not build.is_untouched(kata, text):
        return "passed, edited since" if passed else "in progress"
    if kata.notebook.exists() and "notebook" in sync.pending(kata) and not build.as_built(kata)[1]:
        return "in progress, in the notebook"
    return "not started" if not passed else "passed, fresh stub since"


def show_list(root: Path = ROOT) -> int:
    """Print the katas by track with level, minutes and state."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    found = katas(root)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("track", "kata", "", "level", "minutes", "your attempt"):
        table.add_column(column, justify="right" if column in ("level", "minutes") else "left", overflow="fold")
    above = None
    for kata in found.values():
        stands = state(kata)
        style = next((s for word, s in STYLES.items() if stands.startswith(word)), "")
        track = kata.track if kata.track != above else ""
        above = kata.track
        level, minutes = str(kata.level), str(kata.minutes)
        table.add_row(track, Text(kata.name, "bold"), kata.title, level, minutes, Text(stands, style))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=120)
    console.print(table)
    count = sum(state(kata).startswith("passed") for kata in found.values())
    console.print(f"\n{count} of {len(found)} passed. `nox -s grade -- NAME` grades katas/NAME.py.")
    return 0


def show_hint(kata: Kata, again: bool = False) -> int:
    """Print the next hint; `again` starts over with the first."""
    Screen(sys.stdout).markdown(next_hint(kata, again))
    return 0


def next_hint(kata: Kata, again: bool = False) -> str:
    """The next hint in Markdown, which then counts as taken; `again` starts over with the first."""
    hints = build.hints(kata)
    seen = 0 if again else hints_taken(kata)
    if seen >= len(hints):
        return (
            f"{kata.name} has no more hints than the {len(hints)} you have seen.\n\n"
            f"`nox -s hint -- {kata.name} --again` starts over; `nox -s reveal -- {kata.name} --spoil` is the answer."
        )
    store.update_state(kata.home / "hints.json", kata.name, seen + 1)
    return f"{kata.title}: hint {seen + 1} of {len(hints)}\n\n{hints[seen]}"


def hints_taken(kata: Kata) -> int:
    """How many hints the user has seen since the stub was fresh."""
    seen = store.read_state(kata.home / "hints.json").get(kata.name)
    return seen if isinstance(seen, int) else 0


def reveal(kata: Kata, spoil: bool = False, as_notebook: bool = False) -> int:
    """Show the solution and what there is to say about it, printed or as a notebook, to those who passed or insist."""
    if stays_hidden(kata, spoil):
        print(stays_hidden(kata, spoil))
        return 1
    if as_notebook:
        print(write_lesson(kata))
        return 0
    _show_code(build.solution_code(build.read_text(kata.master)))
    print()
    Screen(sys.stdout).markdown(build.explanation(kata))
    return 0


def revealed(kata: Kata, spoil: bool = False) -> str:
    """The same in Markdown."""
    code = build.solution_code(build.read_text(kata.master))
    return stays_hidden(kata, spoil) or f"```python\n{code}```\n\n{build.explanation(kata)}"


def write_lesson(kata: Kata) -> str:
    """Write the explained solution with its figures as a notebook. Returns the sentence that says where."""
    text = build.lesson_text(kata)
    node = build.notebook(text)
    node.metadata["jupytext"] = {"formats": "ipynb,py:percent"}  # a pair of their own: the master stays as it is
    kept = []
    for suffix, content in ((".py", text), (".ipynb", build.notebook_text(node))):
        path = kata.root / "lessons" / f"{kata.name}{suffix}"
        if path.exists() and path.read_bytes() != content.encode():
            kept.append(kata.say(store.keep(kata.home / "kept", path, path.read_bytes())))
        store.write_atomic(path, content)
    before = f" (before: {' and '.join(kept)})" if kept else ""
    return f"{kata.say(path)} is the explained solution with its figures{before}. `nox -s lab` opens JupyterLab."


def stays_hidden(kata: Kata, spoil: bool) -> str:
    """Why the solution is not shown yet; nothing when it may be."""
    if spoil or has_passed(kata):
        return ""
    return (
        f"{kata.name} is not passed yet, so its solution stays hidden.\n"
        f"`nox -s hint -- {kata.name}` helps a little; `nox -s reveal -- {kata.name} --spoil` shows all of it."
    )


def reset(kata: Kata) -> str:
    """Write a fresh stub and notebook; what the user had is kept. Returns the sentence that says where."""
    built = build.as_built(kata)
    sides = [(kata.stub, built[0]), (kata.notebook, built[1])]
    kept = [
        store.keep(kata.home / "kept", path, path.read_bytes()) for path, fresh in sides if path.exists() and not fresh
    ]
    build.write_fresh(kata)
    sync.record(kata)
    store.update_state(kata.home / "hints.json", kata.name, None)
    if not kept:
        return f"{kata.say(kata.stub)} is a fresh stub; there was no work to keep."
    return f"{kata.say(kata.stub)} is a fresh stub; what you had is in {' and '.join(map(kata.say, kept))}."


def _passed(kata: Kata) -> Path:
    return kata.home / "passed.json"


def _digest(text: str) -> str:
    return store.digest(text.removeprefix("\ufeff").replace("\r\n", "\n"))


def _show_code(code: str) -> None:
    if not sys.stdout.isatty():
        print(code, end="")
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console().print(Syntax(code, "python", background_color="default"))
