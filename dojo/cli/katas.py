"""`list`, `hint`, `reveal` and `reset`: what there is to practise, what helps, and a fresh start."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dojo.cli.selection import relocate
from dojo.content import catalog, master
from dojo.content.catalog import ROOT, Kata, Trouble
from dojo.practice import progress
from dojo.practice.database import Unreadable
from dojo.practice.progress import State
from dojo.verdict.screen.terminal import Screen

STYLES = {State.NOT_STARTED: "dim", State.PASSED: "green", State.FAILED_SINCE: "red"}
NARROW = 20  # columns left for titles at which levels and minutes are left out


def show_list(root: Path = ROOT) -> int:
    """Print the katas by track with level, minutes and state."""
    found = catalog.katas(root)
    try:
        standings, trouble = progress.standings(found.values()), ""
    except Unreadable as unreadable:
        standings, trouble = progress.standings(found.values(), []), f"it is not known what has passed: {unreadable}"
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=120)
    plain = console.options.ascii_only
    names = [f"  {kata.name}" for kata in found.values()]
    states = [standings[kata.name].state for kata in found.values()]
    fixed = [("kata", max(map(len, names))), ("level", 5), ("min", 3), ("your attempt", max(12, *map(len, states)))]
    if console.width - sum(width + 2 for _, width in fixed) < NARROW:
        fixed = [fixed[0], fixed[-1]]
    room = max(1, console.width - sum(width + 2 for _, width in fixed))  # for the titles, which may be shortened
    room = min(room, max(len(kata.title) for kata in found.values()))
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    columns = [fixed[0], ("", room), *fixed[1:]]
    for name, width in columns:
        side: Literal["left", "right"] = "right" if name in ("level", "min") else "left"
        cut: Literal["crop", "ellipsis"] = "crop" if name or plain else "ellipsis"
        table.add_column(name, width=width, justify=side, no_wrap=True, overflow=cut)
    for track in dict.fromkeys(kata.track for kata in found.values()):
        own = [kata for kata in found.values() if kata.track == track]
        table.add_row(
            Text(track, "bold"), _bar(sum(standings[kata.name].passed for kata in own), len(own), room, plain)
        )
        for kata in own:
            state = standings[kata.name].state
            numbers = [str(kata.level), str(kata.minutes)] if len(fixed) > 2 else []
            table.add_row(f"  {kata.name}", kata.title, *numbers, Text(state, STYLES.get(state, "yellow")))
    console.print(table)
    if trouble:
        print(f"\ndojo: {trouble}", file=sys.stderr)
    passed = "" if trouble else f"{progress.tally(standings.values())}. "
    console.print(f"\n{passed}`nox -s grade -- NAME` grades katas/TRACK/NAME.py.")
    return 0


def _bar(done: int, count: int, room: int, plain: bool) -> Text:
    """How many katas of a track are passed, as a bar and a number."""
    full, rest = "#." if plain else "━╌"
    number = f" {done} of {count}"
    length = max(0, min(12, room - len(number)))
    filled = length * done // count
    return Text.assemble((full * filled, "green"), (rest * (length - filled), "dim"), number)


def show_hint(kata: Kata, again: bool = False) -> int:
    """Print the next hint; `again` starts over with the first."""
    Screen(sys.stdout).markdown(progress.next_hint(kata, again))
    return 0


def reset(words: list[str], yes: bool = False) -> int:
    """Write fresh stubs; several at once only after a word of the user, on a terminal or as `yes`."""
    katas = catalog.select(words)
    if len(katas) > 1 and not yes:
        what = f"reset writes {len(katas)} stubs and notebooks afresh ({katas[0].name} … {katas[-1].name})"
        if not sys.stdin.isatty():
            raise Trouble(f"{what}: say `--yes` where nobody can be asked. Nothing was done.")
        try:
            said = input(f"{what}; copies of your work go to .dojo/kept. Go on? [y/N] ")
        except EOFError:
            said = ""
        if said.strip().lower() not in ("y", "yes"):
            print("nothing was done")
            return 1
    relocate(katas)
    for kata in katas:
        print(progress.reset(kata), flush=True)
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
    from rich.syntax import Syntax

    Console().print(Syntax(code, "python", background_color="default"))
