"""Work against the clock, graded on every save: what mock interviews and bug hunts have in common.

An interview lives in a folder of its own. Its state is written as it goes, so that one that was cut off goes on with
the time that was left.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dojo import build, catalog, grade, store
from dojo.catalog import Kata, Trouble

if TYPE_CHECKING:
    from dojo.screen import Screen
    from dojo.verdict import Verdict
    from dojo.warm import Judge

STATE = "interview.json"
HEARTBEAT = 2.0  # seconds between two writings of the state
KEYS = "h + Enter: a hint · q + Enter: end it · Ctrl-C: go on later"


class End(StrEnum):
    """Why an interview is over, or not."""

    OPEN = "interrupted"
    SOLVED = "everything passes"
    ENDED = "ended by you"
    TIME = "the time is up"


@dataclass
class Event:
    """One grading during the interview: seconds into it, and what came of it."""

    at: float
    kata: str
    verdict: str
    tiers: dict[str, str]
    passed: int
    checks: int
    failing: list[str] = field(default_factory=list)
    scores: dict[str, str] = field(default_factory=dict)  # by tier, as 5/7


@dataclass
class Interview:
    """What is asked, how long it may take, and what has happened so far."""

    folder: Path
    kind: str  # mock or hunt
    katas: list[str]
    seconds: float
    spent: float = 0.0
    hints: dict[str, int] = field(default_factory=dict)
    saves: int = 0
    events: list[Event] = field(default_factory=list)
    end: End = End.OPEN
    planted: dict[str, list[str]] = field(default_factory=dict)  # of a hunt: the names of the bugs

    @property
    def left(self) -> float:
        return max(0.0, self.seconds - self.spent)

    def path(self, kata: str) -> Path:
        """The file to write in."""
        return self.folder / f"{kata}.py"

    def save(self) -> None:
        """Write the state."""
        state = asdict(self) | {"folder": None}
        store.write_atomic(self.folder / STATE, json.dumps(state, indent=1) + "\n")

    def last(self, kata: str) -> Event | None:
        """The latest grading of a kata."""
        return next((event for event in reversed(self.events) if event.kata == kata), None)

    def solved(self, kata: str) -> bool:
        event = self.last(kata)
        return event is not None and event.verdict == "passed"


def load(folder: Path) -> Interview:
    """The interview in a folder. Raises Trouble when there is none."""
    state = store.read_state(folder / STATE)
    try:
        events = [Event(**event) for event in state.pop("events")]
        return Interview(**state | {"folder": folder, "events": events, "end": End(state["end"])})
    except (KeyError, TypeError, ValueError):
        raise Trouble(f"{folder} holds no interview that can be read ({STATE} is missing or broken)") from None


def unfinished(root: Path, kind: str) -> list[Interview]:
    """Interviews of this kind that were cut off, the latest first."""
    found = []
    for path in sorted((root / f"{kind}s").glob(f"*/{STATE}"), reverse=True):
        try:
            found.append(load(path.parent))
        except Trouble:
            continue
    return [each for each in found if each.end is End.OPEN and each.left > 0]


def begin(kind: str, katas: list[Kata], seconds: float, sources: dict[str, str]) -> Interview:
    """A new folder with a file for each kata."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = "-".join([stamp, *[kata.name for kata in katas[:3]], *(["more"] if len(katas) > 3 else [])])
    folder = katas[0].root / f"{kind}s" / name
    suffix = 1
    while folder.exists():
        suffix += 1
        folder = folder.with_name(f"{name}-{suffix}")
    interview = Interview(folder, kind, [kata.name for kata in katas], seconds)
    for kata in katas:
        store.write_atomic(interview.path(kata.name), sources[kata.name])
    interview.save()
    return interview


class Room:
    """Where an interview takes place: files are watched, saves graded, keys heard, and the clock runs."""

    def __init__(self, interview: Interview, judge: Judge, screen: Screen) -> None:
        from dojo.warm import Saves

        self.interview, self.judge, self.screen = interview, judge, screen
        self.known = {name: catalog.katas()[name] for name in interview.katas}
        self.saves = {name: Saves(interview.path(name)) for name in interview.katas}
        self.waiting: dict[str, bytes] = {}
        self.graded: str | None = None  # what the judge is busy with
        self.verdicts: dict[str, Verdict] = {}
        self.listening = True
        self._status, self._beat = "", 0.0
        for kata in self.known.values():
            judge.prepare(kata)

    def hold(self) -> None:
        """Go on until everything passes or the user ends it; a test's timeout may end it from outside."""
        interview, started, before = self.interview, time.monotonic(), self.interview.spent
        try:
            while interview.end is End.OPEN:
                interview.spent = before + time.monotonic() - started
                self._listen()
                self._look()
                if all(map(interview.solved, interview.katas)):
                    interview.end = End.SOLVED
                if time.monotonic() - self._beat > HEARTBEAT:
                    self._beat = time.monotonic()
                    interview.save()
                self._show_status()
        except KeyboardInterrupt:
            pass
        finally:
            interview.spent = before + time.monotonic() - started
            self._wipe()
            interview.save()

    def _look(self) -> None:
        """Grade what has been saved, one file at a time; this is where the loop waits."""
        for name, saves in self.saves.items():
            content = saves.new()
            if content is not None:
                self.waiting[name] = content
        if self.graded is None:
            if not self.waiting:
                time.sleep(0.02)
                return
            name, _ = next(iter(self.waiting.items()))
            del self.waiting[name]
            self._begin(name)
            return
        verdict = self.judge.verdict(0.02)
        if verdict is not None:
            name, self.graded = self.graded, None
            self._note(name, verdict)

    def entry(self, name: str) -> grade.Entry:
        """What is in a kata's file now."""
        path = self.interview.path(name)
        command = f"nox -s grade -- {name} --attempt {self.known[name].say(path)}"
        return grade.Entry(self.known[name], grade.read(path), self.known[name].say(path), command)

    def _begin(self, name: str) -> None:
        try:
            entry = self.entry(name)
        except Trouble as trouble:
            self._say(f"dojo: {trouble}")
            return
        if build.is_untouched(self.known[name], entry.source):
            return
        self.interview.saves += 1
        self.graded = name
        self.judge.begin(entry)

    def _note(self, name: str, verdict: Verdict) -> None:
        self.verdicts[name] = verdict
        passed = sum(check.outcome.harmless for check in verdict.checks)
        failing = [check.name for check in verdict.checks if not check.outcome.harmless]
        scores = {}
        for tier in verdict.tiers:
            mine = [check.outcome.harmless for check in verdict.checks if check.tier == tier]
            scores[tier] = f"{sum(mine)}/{len(mine)}"
        now = self.interview.spent
        event = Event(now, name, verdict.verdict, verdict.tiers, passed, len(verdict.checks), failing, scores)
        self.interview.events.append(event)
        self._wipe()
        self.screen.failures(verdict)
        self.interview.save()

    def _listen(self) -> None:
        """Take what the user typed, a line at a time."""
        try:
            while self.listening and select.select([sys.stdin], [], [], 0)[0]:
                line = sys.stdin.readline()
                if not line:
                    self.listening = False
                word = line.strip().lower()
                if word in ("q", "quit"):
                    self.interview.end = End.ENDED
                elif word in ("h", "hint"):
                    self._hint()
        except (OSError, ValueError):
            self.listening = False  # no keyboard here

    def _hint(self) -> None:
        name = next((name for name in self.interview.katas if not self.interview.solved(name)), None)
        if name is None:
            return
        hints, taken = build.hints(self.known[name]), self.interview.hints.get(name, 0)
        if taken >= len(hints):
            self._say(f"{name} has no more hints than the {len(hints)} you have seen.")
            return
        self.interview.hints[name] = taken + 1
        self._say(f"{name}, hint {taken + 1} of {len(hints)}: {hints[taken]}")

    def _say(self, text: str) -> None:
        self._wipe()
        print(text, flush=True)

    def _show_status(self) -> None:
        """One line that stays where it is: time, checks by kata, hints."""
        if not sys.stdout.isatty():
            return
        left = self.interview.left
        parts = [f"{int(left // 60)}:{int(left % 60):02d} left"]
        for name in self.interview.katas:
            event = self.interview.last(name)
            scores = ", ".join(f"{tier} {score}" for tier, score in event.scores.items()) if event else "not started"
            parts.append(f"{name} {scores or event.verdict}")
        hints = sum(self.interview.hints.values())
        parts += [f"{hints} hint{'s' * (hints != 1)}", "grading …" if self.graded else KEYS]
        line = " · ".join(parts)
        if line != self._status:
            import shutil

            width = shutil.get_terminal_size().columns - 1
            self._status = line
            sys.stdout.write(f"\r\x1b[2K{line[:width]}")
            sys.stdout.flush()

    def _wipe(self) -> None:
        if self._status and sys.stdout.isatty():
            sys.stdout.write("\r\x1b[2K")
            sys.stdout.flush()
        self._status = ""


def hold(room: Room) -> End:
    """Hold the interview as the one test of a pytest session, which pytest-timeout ends at the deadline."""
    import pytest

    class Session:
        """Hands the room to the test, and keeps pytest's own words off the screen."""

        @pytest.fixture
        def room(self) -> Room:
            return room

        @pytest.hookimpl(tryfirst=True)
        def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str]:
            return "", "", ""

    limit = room.interview.left
    words = [str(Path(__file__).with_name("held.py")), "-c", "/dev/null", f"--rootdir={catalog.ROOT}", "-s", "-qq"]
    words += ["--disable-plugin-autoload", "-p", "pytest_timeout", f"--timeout={limit}", "--timeout-method=signal"]
    words += ["--tb=no", "--no-header", "--no-summary", "-o", "python_files=held.py", "-p", "no:cacheprovider"]
    pytest.main(words, plugins=[Session()])
    interview = room.interview
    if interview.end is End.OPEN and interview.left < 0.5:
        interview.end = End.TIME
    interview.save()
    return interview.end


def grade_once_more(room: Room, tell: Callable[[str], None]) -> dict[str, Verdict]:
    """The last saved attempts with fresh inputs: what the scorecard rests on."""
    import secrets

    final = {}
    for name in room.interview.katas:
        try:
            entry = room.entry(name)
        except Trouble as trouble:
            tell(f"dojo: {trouble}")
            continue
        options = replace(room.judge.options, seed=secrets.randbelow(2**31))
        final[name] = room.judge.grade(entry, options)
    return final
