"""Timed sessions, graded on every save: what mock interviews, drills and bug hunts have in common.

A session has a folder of its own. Its state is written as it goes, so that one that was cut off goes on with the time
that was left; `session_loop` has its rules.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dojo.content import catalog, files
from dojo.content.catalog import Kata, Trouble
from dojo.content.proofs import Hunted
from dojo.grading.options import Entry
from dojo.verdict.types import PASSED, SOLVED, WRONG, Outcome, Tier, state_of

if TYPE_CHECKING:
    from dojo.verdict.types import Verdict

STATE = "interview.json"
RUNNING = ".running"  # locked by the process that holds the session
DRILL = "drill"
STOPPED = (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.SKIPPED)


class End(StrEnum):
    """Why a session is over, or not."""

    OPEN = "interrupted"
    SOLVED = "everything passes"
    ENDED = "ended by you"
    TIME = "the time is up"


@dataclass
class Event:
    """One grading during a session: seconds into it, and what came of it."""

    at: float
    kata: str
    verdict: str
    tiers: dict[str, str]
    passed: int
    checks: int
    failing: list[str] = field(default_factory=list)
    scores: dict[str, str] = field(default_factory=dict)  # by tier, as 5/7
    ran: bool = True  # whether a check of the core tier was not met by an exception or a hang
    stages: dict[str, str] = field(default_factory=dict)  # of a kata with stages: how each stood
    regressed: list[int] = field(default_factory=list)  # which of them had passed before, and failed

    @property
    def word(self) -> str:
        """The verdict as it is shown."""
        return state_of(self.verdict, self.tiers)


@dataclass
class Change:
    """A change of a program that is to be read and judged: an assistant's patch, or what a review is about."""

    before: str  # what stood there, nothing of a new file
    right: str  # the text of the right program that the bugs were planted into
    remarks: list[tuple[int, str]] = field(default_factory=list)  # typed by the user: a line, and what is wrong there
    word: str = ""  # accept or reject, once that is said
    at: float = 0.0  # when it was


@dataclass
class TimedSession:
    """What is asked, how long it may take, and what has happened so far."""

    folder: Path
    kind: str  # mock, drill, hunt or review
    katas: list[str]
    seconds: float
    spent: float = 0.0
    hints: dict[str, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    end: End = End.OPEN
    planted: dict[str, list[str]] = field(default_factory=dict)  # of a hunt: the names of the bugs
    handed_out: dict[str, str] = field(default_factory=dict)  # what stood in each file at the beginning
    silent: bool = False  # no verdict before the end: a save runs the file, and that is all that is told
    real: bool = False  # as in an interview: no hints
    ran: dict[str, str] = field(default_factory=dict)  # of a silent one: what came of the last run of each file
    ratings: dict[str, dict[str, str]] = field(default_factory=dict)  # by kata and question; "" before it is answered
    answers: dict[str, dict[str, str]] = field(default_factory=dict)  # by kata and question, as typed
    begun: float = field(default_factory=time.time)  # seconds since 1970, UTC
    concluded: bool = False  # whether the scorecard has been shown
    mutants: dict[str, list[str]] = field(default_factory=dict)  # of a hunt with a test: what that is held against
    stages: int = 0  # how many the kata has, if it has some
    stage: int = 0  # the last that is open
    opened: dict[str, float] = field(default_factory=dict)  # by stage, seconds into the session
    hinted: dict[str, int] = field(default_factory=dict)  # by stage, how many hints
    remarked: list[str] = field(default_factory=list)  # what the interviewer has said
    change: Change | None = None  # of a review, and of a hunt in an assistant's patch

    @property
    def can_ask(self) -> bool:
        """Whether there is a contract to ask about, which is not handed out."""
        return bool(self.stage) or self.real

    @property
    def left(self) -> float:
        return max(0.0, self.seconds - self.spent)

    def path(self, kata: str) -> Path:
        """The file to write in."""
        return self.folder / f"{kata}.py"

    def asks(self, kata: str) -> str:
        """What is to be done, before the name of the file."""
        if self.change:
            return "mend"  # how many bugs there are would be half of the answer
        count = len(self.planted.get(kata, []))
        return "write in" if count == 0 else "find the bug in" if count == 1 else f"find the {count} bugs in"

    def entry(self, name: str) -> Entry:
        """What is in a kata's file now. Raises Trouble."""
        kata, path = catalog.katas()[name], self.path(name)
        entry, mutants = Entry.of_file(kata, path, kata.say(path)), self.mutants.get(name)
        if not mutants:
            return entry
        handed_out = self.handed_out[name] if self.change else ""
        return replace(entry, hunted=Hunted(tuple(self.planted[name]), tuple(mutants), handed_out))

    def save(self) -> None:
        """Write the state."""
        state = asdict(self) | {"folder": None}
        files.write_atomic(self.folder / STATE, json.dumps(state, indent=1) + "\n")

    @property
    def unanswered(self) -> bool:
        """Whether it is over and yet to be talked about: its terminal was closed before the scorecard."""
        return self.end is not End.OPEN and not self.concluded

    def note(self, name: str, verdict: Verdict, at: float) -> None:
        """Add the grading of what was saved at that time to the events."""
        passed = sum(check.outcome.harmless for check in verdict.checks)
        failing = [check.name for check in verdict.checks if not check.outcome.harmless]
        scores = {}
        for tier in verdict.tiers:
            mine = [check.outcome.harmless for check in verdict.checks if check.tier == tier]
            scores[tier] = f"{sum(mine)}/{len(mine)}"
        ran = any(check.tier is Tier.CORE and check.outcome not in STOPPED for check in verdict.checks)
        counts, words = (passed, len(verdict.checks)), {str(n): word for n, word in verdict.by_stage.items()}
        before = [event.stages for event in self.events if event.kata == name]
        lost = [
            n
            for n, word in verdict.by_stage.items()
            if word == WRONG and any(seen.get(str(n)) in SOLVED for seen in before)
        ]
        self.events.append(Event(at, name, verdict.verdict, verdict.tiers, *counts, failing, scores, ran, words, lost))

    @property
    def judged_rightly(self) -> bool:
        """Whether a change with bugs was rejected, and one without accepted; true where nothing is to be judged."""
        wanted = "reject" if any(self.planted.values()) else "accept"
        return self.change is None or self.change.word == wanted

    def last(self, kata: str) -> Event | None:
        """The latest grading of a kata."""
        return next((event for event in reversed(self.events) if event.kata == kata), None)

    @property
    def regressions(self) -> int:
        """How many times an edit broke what had passed in a stage."""
        pairs = zip(self.events, self.events[1:], strict=False)
        return sum(bool(event.regressed) and not before.regressed for before, event in pairs)

    def passed(self, kata: str) -> bool:
        """Whether nothing is left to do: of a drill, which asks without the contract, what is right is enough."""
        event = self.last(kata)
        return event is not None and event.word in (SOLVED if self.kind == DRILL else (PASSED,))


class Stopwatch:
    """Adds the time that passes from the first tick on to a session's; none passes while the machine sleeps."""

    def __init__(self, held: TimedSession) -> None:
        self.held, self._before = held, held.spent
        self._started: float | None = None

    def tick(self) -> None:
        """Bring the time that was spent up to date."""
        now = time.monotonic()
        self._started = now if self._started is None else self._started
        self.held.spent = self._before + now - self._started


def prepared(folder: Path) -> int:
    """Print the folder of what was begun and is held later."""
    print(folder)
    return 0


@contextmanager
def alone(held: TimedSession) -> Iterator[None]:
    """Hold a session in this process and no other, for each would write its own state. Raises Trouble."""
    with (held.folder / RUNNING).open("a") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            where = catalog.katas()[held.katas[0]].say(held.folder)
            raise Trouble(f"{where} is open in another terminal, or on the page: leave it there, then go on") from None
        yield


def load(folder: Path) -> TimedSession:
    """The session in a folder. Raises Trouble when there is none."""
    state = files.read_state(folder / STATE)
    try:
        state.setdefault("concluded", state["end"] != End.OPEN)  # as it was before there were questions
        events = [Event(**event) for event in state.pop("events")]
        change = Change(**state.pop("change")) if state.get("change") else None
        return TimedSession(**state | {"folder": folder, "events": events, "end": End(state["end"]), "change": change})
    except (KeyError, TypeError, ValueError):
        raise Trouble(f"{folder} holds no session that can be read ({STATE} is missing or broken)") from None


def new_folder(kind: str, katas: list[Kata]) -> Path:
    """A folder that is not there yet, named after the time and the katas."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    name = "-".join([stamp, *[kata.name for kata in katas[:3]], *(["more"] if len(katas) > 3 else [])])
    folder = katas[0].root / f"{kind}s" / name
    suffix = 1
    while folder.exists():
        suffix += 1
        folder = folder.with_name(f"{name}-{suffix}")
    return folder


def begin(
    kind: str, katas: list[Kata], seconds: float, sources: dict[str, str], folder: Path | None = None, **more: Any
) -> TimedSession:
    """A session in a folder with a file for each kata; `more` are further fields of it."""
    folder, names = folder or new_folder(kind, katas), [kata.name for kata in katas]
    session = TimedSession(folder, kind, names, seconds, handed_out=sources, **more)
    for kata in katas:
        files.write_atomic(session.path(kata.name), sources[kata.name])
    session.save()
    return session
