"""The time in which a change is read and judged: remarks by line, typed or in a file, and a word that ends it."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from dojo.content import catalog, files
from dojo.content.catalog import Trouble
from dojo.grading.options import read
from dojo.practice.hunt.refactoring import change
from dojo.practice.interview.timed_session import End, Stopwatch, TimedSession

if TYPE_CHECKING:
    from dojo.practice.hunt.refactoring import Line

NOTES, DIFF = "review.md", "change.diff"  # in the session's folder
ACCEPT, REJECT, DONE = "accept", "reject", "done"
HEARTBEAT = 2.0  # seconds between two writings of the state
REMARK = re.compile(r"(?:[-*]\s+)?(?:line\s+)?(\d+)\s*:\s*(.*)", re.IGNORECASE)
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


class Reading:
    """The rules of a reading: remarks are kept until one of the words is said, or the time is up.

    Whoever runs it calls `step` until it is over, then `stop`.
    """

    def __init__(self, held: TimedSession, words: Collection[str]) -> None:
        from dojo.content.watcher import Saves

        assert held.change is not None
        self.held, self.change, self.words = held, held.change, words
        self.name = held.katas[0]
        self.count = len(held.handed_out[self.name].splitlines())
        self._saves, self._watch, self._beat = Saves(held.folder / NOTES), Stopwatch(held), 0.0
        self._written: list[Remark] = []  # in the file, as it was saved last

    @property
    def over(self) -> bool:
        """Whether a word has ended it, or the clock."""
        return self.held.end is not End.OPEN or self.change.word == REJECT

    def step(self) -> list[str]:
        """Take over what was saved in the file of remarks, and say what is to be said to it; the clock runs."""
        self._watch.tick()
        if self.held.left <= 0:
            self.held.end = End.TIME
        said = self._look()
        if time.monotonic() - self._beat > HEARTBEAT:
            self._beat = time.monotonic()
            self.held.save()
        return said

    def stop(self) -> None:
        """Stop the clock, and keep how far it has come."""
        self._watch.tick()
        self.held.save()

    def hear(self, line: str) -> str:
        """What is said to a line that was typed: a remark, or a word that ends the reading."""
        word, _, rest = line.partition(" ")
        word = word.lower()
        if not line:
            return ""
        if word in self.words:
            answer = self.remark(rest.strip()) if rest.strip() else "noted"
            return self.decide(word) if answer.startswith("noted") else answer
        if line.lower() in ("q", "quit"):
            self.held.end = End.ENDED
            return ""
        return self.remark(line)

    def remark(self, line: str) -> str:
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
        self.change.remarks = [*self.change.remarks, (number, reason)] if reason else kept
        self.held.save()
        return f"{'noted' if reason else 'taken back'}: line {number}."

    def decide(self, word: str) -> str:
        """End the reading; who rejects says why."""
        if word == REJECT and not remarks(self.held):
            return "say which line is wrong and why: `LINE: reason`, then `reject`."
        self.change.word, self.change.at = word, self.held.spent
        self.held.end = End.OPEN if word == REJECT else End.ENDED
        self.held.save()
        return ""

    def _look(self) -> list[str]:
        """Take over what was saved in the file of remarks."""
        content = self._saves.new()
        if content is None:
            return []
        text = content.decode("utf-8", "replace")
        found = _parsed(text)
        told = "" if found == self._written else f"{NOTES}: {len(found)} remark{'s' * (len(found) != 1)}."
        self._written = found
        words = {line.strip().lower() for line in text.splitlines()}
        word = next((word for word in self.words if word in words), "")
        return [*filter(None, [told, self.decide(word) if word else ""])]


def changed_lines(held: TimedSession) -> list[Line]:
    """The lines of the change, numbered as the new program's are."""
    assert held.change is not None
    return change(held.change.before, held.handed_out[held.katas[0]])
