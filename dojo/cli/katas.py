"""`list`, `show`, `hint` and `reveal`: what there is to practise, and what helps."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from dojo.content import master
from dojo.content.catalog import ROOT, Kata, katas, typed
from dojo.practice import progress
from dojo.practice.database import Unreadable
from dojo.practice.progress import State
from dojo.verdict.screen.terminal import Screen

STYLES = {State.NOT_STARTED: "dim", State.PASSED: "green", State.FAILED_SINCE: "red"}


def show_list(root: Path = ROOT) -> int:
    """Print the katas by track with level, minutes and state."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    found = katas(root)
    try:
        standings, trouble = progress.standings(found.values()), ""
    except Unreadable as unreadable:
        standings, trouble = progress.standings(found.values(), []), f"it is not known what has passed: {unreadable}"
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("track", "kata", "", "level", "minutes", "your attempt"):
        table.add_column(column, justify="right" if column in ("level", "minutes") else "left", overflow="fold")
    above = None
    for kata in found.values():
        state = standings[kata.name].state
        style = STYLES.get(state, "yellow")
        track = kata.track if kata.track != above else ""
        above = kata.track
        level, minutes = str(kata.level), str(kata.minutes)
        table.add_row(track, Text(kata.name, "bold"), kata.title, level, minutes, Text(state, style))
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=120)
    console.print(table)
    if trouble:
        print(f"\ndojo: {trouble}", file=sys.stderr)
    passed = "" if trouble else f"{progress.tally(standings.values())}. "
    console.print(f"\n{passed}`{typed('grade NAME')}` grades katas/TRACK/NAME.py.")
    return 0


def show_beginning(kata: Kata) -> None:
    """Print what the kata asks for in short, and what helps on the way: for those who have not begun."""
    title, *paragraphs = master.statement(kata).split("\n\n")
    about = next(text for text in paragraphs if not text.startswith("$$"))
    stub = ast.parse(master.stub_text(kata)).body
    unwritten = [n for n in stub if isinstance(n, master.DEFINITIONS) and "NotImplementedError" in ast.unparse(n)]
    asked = f"**Write** {' and '.join(f'`{node.name}`' for node in unwritten)}. Par is {kata.minutes} minutes."
    Screen(sys.stdout).markdown(f"{title}\n\n{about}\n\n{asked}")
    steps = {
        kata.say(kata.stub): "where you write, below the whole statement",
        typed(f"show {kata.name}"): "shows the statement as a page",
        typed(f"watch {kata.name}"): "grades it on every save",
        typed(f"hint {kata.name}"): "helps a little",
    }
    width = max(map(len, steps))
    print("\n" + "".join(f"  {step:{width}}  {what}\n" for step, what in steps.items()), flush=True)


def show_statement(kata: Kata) -> int:
    """Print what the kata asks for, and where it is written."""
    after = (
        f"Level {kata.level}, {kata.minutes} minutes. Write it in `{kata.say(kata.stub)}`. "
        f"`{typed(f'grade {kata.name}')}` grades it; `{typed(f'hint {kata.name}')}` helps a little."
    )
    Screen(sys.stdout).markdown(f"{master.statement(kata)}\n\n{after}", paged=True)
    return 0


def show_hint(kata: Kata, again: bool = False) -> int:
    """Print the next hint; `again` starts over with the first."""
    Screen(sys.stdout).markdown(progress.next_hint(kata, again))
    return 0


def reveal(kata: Kata, spoil: bool = False, as_notebook: bool = False) -> int:
    """Show the solution and what there is to say about it, printed or as a notebook, to those who passed or insist."""
    hidden = progress.stays_hidden(kata, spoil)
    if hidden:
        print(hidden)
        return 1
    if as_notebook:
        print(progress.write_lesson(kata))
        return 0
    _show_code(master.solution_code(master.read_text(kata.master)))
    print()
    Screen(sys.stdout).markdown(master.explanation(kata))
    return 0


def _show_code(code: str) -> None:
    if not sys.stdout.isatty():
        print(code, end="")
        return
    from rich.console import Console

    from dojo.verdict.screen.markdown import highlighted

    Console().print(highlighted(code), soft_wrap=True)  # lines that the terminal breaks can be copied whole
