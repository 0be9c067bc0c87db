"""The time in which a change is read and judged: remarks by line, typed or in a file, and a word that ends it."""

from __future__ import annotations

import difflib
import os
import re
import select
import shutil
import sys
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from dojo.content import catalog, files, master
from dojo.content.catalog import Trouble
from dojo.grading.options import read
from dojo.practice.hunt.refactoring import change
from dojo.practice.interview.status_line import clock, spoken
from dojo.practice.interview.timed_session import End, TimedSession
from dojo.verdict.screen.text import clean, encodable, filled, wrap

if TYPE_CHECKING:
    from dojo.practice.hunt.refactoring import Line

NOTES, DIFF = "review.md", "change.diff"  # in the session's folder
ACCEPT, REJECT, DONE = "accept", "reject", "done"
HEARTBEAT = 2.0  # seconds between two writings of the state
SCREENFUL = 18  # lines that `show LINE` shows
REMARK = re.compile(r"(?:[-*]\s+)?(?:line\s+)?(\d+)\s*:\s*(.*)", re.IGNORECASE)
STYLES = {"+": "green", "-": "red"}
HEAD = """# {title}

One remark a line, as `LINE: reason`, by the numbers of {name}.py.
{ends} on a line of its own ends the reading. Save when you have written.

"""
Remark = tuple[int, str]  # a line, and what is wrong there


def hand_out(held: TimedSession, words: Collection[str]) -> None:
    """Write the diff, and the file that remarks may be written in, beside the program."""
    (name,) = held.katas
    before, after = held.change.before if held.change else "", held.handed_out[name]
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{name}.py", f"b/{name}.py", lineterm="")
    files.write_atomic(held.folder / DIFF, "\n".join(lines) + "\n")
    ends = " or ".join(f"`{word}`" for word in words)
    head = HEAD.format(title=catalog.katas()[name].title, name=name, ends=ends)
    files.write_atomic(held.folder / NOTES, head)


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


def remarks(held: TimedSession) -> list[Remark]:
    """What was remarked, in the order of lines: typed, and written into the file."""
    typed = [(number, reason) for number, reason in held.change.remarks] if held.change else []
    try:
        written = _parsed(read(held.folder / NOTES))
    except Trouble:
        written = []
    return sorted(dict.fromkeys([*typed, *written]), key=lambda remark: remark[0])


def _parsed(text: str) -> list[Remark]:
    found = (REMARK.fullmatch(line.strip()) for line in text.splitlines())
    return [(int(match[1]), match[2].strip()) for match in found if match and match[2].strip()]


class Reader:
    """Hears remarks until one of the words is said, or the time is up."""

    def __init__(self, held: TimedSession, words: Collection[str]) -> None:
        from dojo.content.watcher import Saves

        assert held.change is not None
        self.held, self.change, self.words = held, held.change, words
        self.name = held.katas[0]
        self.count = len(held.handed_out[self.name].splitlines())
        self._saves, self._typed, self._hears = Saves(held.folder / NOTES), b"", True
        self._written: list[Remark] = []  # in the file, as it was saved last

    def run(self) -> bool:
        """Whether the reading is over; not where Ctrl-C cut it off."""
        held, started, before, beat = self.held, time.monotonic(), self.held.spent, 0.0
        self._prompt()
        try:
            while not self._over():
                held.spent = before + time.monotonic() - started
                if held.left <= 0:
                    held.end = End.TIME
                self._listen()
                self._look()
                if time.monotonic() - beat > HEARTBEAT:
                    beat = time.monotonic()
                    held.save()
        except KeyboardInterrupt:
            pass
        finally:
            held.spent = before + time.monotonic() - started
            held.save()
        print(flush=True)
        return self._over()

    def _over(self) -> bool:
        return self.held.end is not End.OPEN or self.change.word == REJECT

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
            if not self._over():
                self._prompt()

    def _heard(self, line: str) -> str:
        """What is said to a line that was typed."""
        word, _, rest = line.partition(" ")
        word = word.lower()
        if not line:
            return ""
        if word in (REJECT, ACCEPT, DONE) and word in self.words:
            answer = self._remark(rest.strip()) if rest.strip() else ""
            refused = bool(rest.strip()) and not answer.startswith("noted")
            return answer if refused else self._decide(word)
        if line.lower() in ("q", "quit"):
            self.held.end = End.ENDED
            return ""
        if word == "show" and (not rest or rest.strip().isdigit()):
            show(changed_lines(self.held), int(rest) if rest else 1, SCREENFUL if rest else None)
            return ""
        return self._remark(line)

    def _remark(self, line: str) -> str:
        """Keep a remark, or take one back."""
        match = REMARK.fullmatch(line)
        if not match:
            ends = " or ".join(f"`{word}`" for word in self.words)
            return f"a remark is `LINE: reason`, as in `12: the mask is inverted`; {ends} ends the reading."
        number, reason = int(match[1]), match[2].strip()
        if not 1 <= number <= self.count:
            return f"there is no line {number}: {self.name}.py has 1 to {self.count}."
        kept = [remark for remark in self.change.remarks if remark[0] != number]
        if not reason and len(kept) == len(self.change.remarks):
            return (
                f"you have typed no remark on line {number} that could be taken back: say why, as `{number}: reason`."
            )
        if not reason:
            self.change.remarks = kept
            self.held.save()
            return f"taken back: line {number}."
        self.change.remarks = [*self.change.remarks, (number, reason)]
        self.held.save()
        return f"noted: line {number}."

    def _decide(self, word: str) -> str:
        """End the reading; who rejects says why."""
        if word == REJECT and not remarks(self.held):
            return "say which line is wrong and why: `LINE: reason`, then `reject`."
        self.change.word, self.change.at = word, self.held.spent
        self.held.end = End.OPEN if word == REJECT else End.ENDED
        self.held.save()
        return ""

    def _look(self) -> None:
        """Take over what was saved in the file of remarks."""
        content = self._saves.new()
        if content is None:
            return
        text = content.decode("utf-8", "replace")
        found = _parsed(text)
        told = "" if found == self._written else f"{NOTES}: {len(found)} remark{'s' * (len(found) != 1)}."
        self._written = found
        words = {line.strip().lower() for line in text.splitlines()}
        word = next((word for word in self.words if word in words), "")
        said = self._decide(word) if word else ""
        for line in filter(None, [told, said]):
            print(filled(f"\n{line}", sys.stdout), flush=True)
        if (told or said) and not self._over():
            self._prompt()

    def _prompt(self) -> None:
        if sys.stdin.isatty() and sys.stdout.isatty():
            count = len(remarks(self.held))
            print(f"{clock(self.held.left)} left · {count} remark{'s' * (count != 1)} > ", end="", flush=True)


def changed_lines(held: TimedSession) -> list[Line]:
    """The lines of the change, numbered as the new program's are."""
    assert held.change is not None
    return change(held.change.before, held.handed_out[held.katas[0]])


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
