"""Reading a change in a terminal: it is shown with its line numbers, and remarks are typed."""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from typing import TYPE_CHECKING

from dojo.content import catalog, master
from dojo.practice.hunt.reading import DIFF, NOTES, Reading, changed_lines, remarks
from dojo.practice.interview.status_line import clock, spoken
from dojo.verdict.screen.text import clean, encodable, filled, wrap

if TYPE_CHECKING:
    from dojo.practice.hunt.refactoring import Line
    from dojo.practice.interview.timed_session import TimedSession

SCREENFUL = 18  # lines that `show LINE` shows
STYLES = {"+": "green", "-": "red"}


def present(held: TimedSession, title: str, about: str, ends: str) -> None:
    """Say what the kata asks, show the change, and say what is to be done with it."""
    from dojo.verdict.screen.terminal import Screen

    kata = catalog.katas()[held.katas[0]]
    diff, notes = (kata.say(held.folder / name) for name in (DIFF, NOTES))
    print(f"\n{kata.title}: {title}\n", flush=True)
    Screen(sys.stdout).markdown(master.ask(kata))
    print()
    show(changed_lines(held))
    told = f"""
{spoken(held.left)} from now. {about}
The change is in {diff} too; `show`, or `show LINE`, shows it again.
Remarks: `LINE: reason`, by the numbers at the left, typed here or written into {notes}; `LINE:` alone takes one back.
{ends} Ctrl-C: go on later.
"""
    print(filled(told, sys.stdout), flush=True)
    for line, reason in remarks(held):
        print(filled(encodable(f"remarked before: {line}: {reason}", sys.stdout), sys.stdout), flush=True)


class Reader:
    """Hears remarks at a terminal until the reading is over."""

    def __init__(self, reading: Reading) -> None:
        self.reading, self.held = reading, reading.held
        self._typed, self._hears = b"", True

    def run(self) -> bool:
        """Whether the reading is over; not where Ctrl-C cut it off."""
        self._prompt()
        try:
            while not self.reading.over:
                self._listen()
                said = self.reading.step()
                for line in said:
                    print(filled(f"\n{line}", sys.stdout), flush=True)
                if said and not self.reading.over:
                    self._prompt()
        except KeyboardInterrupt:
            pass
        finally:
            self.reading.stop()
        print(flush=True)
        return self.reading.over

    def _listen(self) -> None:
        """Take what was typed; a byte at a time, so that what is meant for later stays where it is."""
        if not self._hears:
            time.sleep(0.05)
            return
        try:
            if not select.select([sys.stdin], [], [], 0.05)[0]:
                return
            byte = os.read(sys.stdin.fileno(), 1)
        except (OSError, ValueError):
            self._hears = False  # no keyboard here
            return
        self._hears = bool(byte)
        self._typed += byte
        if byte in (b"\n", b"") and self._typed:
            line, self._typed = self._typed.decode(errors="replace"), b""
            answer = self._heard(" ".join(clean(line)).strip())
            if answer:
                print(filled(encodable(answer, sys.stdout), sys.stdout), flush=True)
            if not self.reading.over:
                self._prompt()

    def _heard(self, line: str) -> str:
        """What is said to a line that was typed."""
        word, _, rest = line.partition(" ")
        if word.lower() == "show" and (not rest or rest.strip().isdigit()):
            show(changed_lines(self.held), int(rest) if rest else 1, SCREENFUL if rest else None)
            return ""
        return self.reading.hear(line)

    def _prompt(self) -> None:
        if sys.stdin.isatty() and sys.stdout.isatty():
            count = len(remarks(self.held))
            print(f"{clock(self.held.left)} left · {count} remark{'s' * (count != 1)} > ", end="", flush=True)


def show(lines: list[Line], first: int = 1, most: int | None = None) -> None:
    """Print numbered lines of a change, from the one of this number on; wide ones go on below themselves."""
    start = next((n for n, (number, _, _) in enumerate(lines) if number and number >= first), 0) if first > 1 else 0
    lines = lines[start : None if most is None else start + most]
    plain = not sys.stdout.isatty()
    width = None if plain else shutil.get_terminal_size().columns
    rows = [
        row
        for number, sign, text in lines
        for row in wrap(f"{number or '':>4} ", [(f"{sign} {text}".rstrip(), STYLES.get(sign, ""))], width)
    ]
    if plain:
        text = "\n".join("".join(part for part, _ in row).rstrip() for row in rows)
        print(encodable(text, sys.stdout), flush=True)
        return
    from rich.console import Console
    from rich.text import Text

    Console(highlight=False).print(Text("\n").join(Text.assemble(*row) for row in rows), soft_wrap=True)
