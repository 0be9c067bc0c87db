"""Sessions that are held on the page: each by a thread that does as a terminal does, at a desk that pages show.

The state is the session's folder, as for the terminal. A session's clock runs while a page of it is open; where the
last one has gone, or the server ends, it stops, and what comes next reads the folder.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from nicegui import Client

from dojo.content import catalog, stages
from dojo.content.catalog import Kata, Trouble
from dojo.content.stages import Stage
from dojo.grading.options import Entry, Options
from dojo.grading.resident_process import ResidentProcess
from dojo.grading.run import ScriptRun
from dojo.practice.database import Answer
from dojo.practice.hunt import assistant, review
from dojo.practice.hunt.reading import Reading
from dojo.practice.interview import drill, inquiries, ladder, mock, questions, timed_session
from dojo.practice.interview.questions import Posed
from dojo.practice.interview.session_loop import SessionLoop
from dojo.practice.interview.timed_session import DRILL, End, TimedSession
from dojo.verdict.types import Check, Verdict
from dojo.web.editor import draft_of

KINDS = ("mock", "hunt", "review", DRILL)
GONE = 10.0  # seconds without a page, after which a session is left
TICK = 0.1  # seconds between two looks at what its pages want


class Phase(StrEnum):
    """What a session's pages show."""

    OPENING = "opening"
    BEGIN = "begin"  # no clock runs before its user says so
    READING = "reading"
    CODE = "code"
    LAST = "last grading"
    QUESTION = "question"
    OVER = "over"
    TROUBLE = "trouble"
    LEFT = "left"  # nobody looked; it goes on when somebody does


@dataclass(frozen=True)
class Said:
    """Something that was said in a session, and by whom; `markdown` is the project's own."""

    who: str
    text: str
    markdown: bool = False


class Left(BaseException):
    """No page shows the session any more, or the server ends."""


class JudgeGrader:
    """The judge that all pages share, as the grader of one session."""

    def __init__(self, judge: ResidentProcess, diagnose: bool) -> None:
        self.judge, self.options = judge, Options(judge.seed, diagnose=diagnose)
        self._news: queue.SimpleQueue[tuple[int, object]] = queue.SimpleQueue()
        self._number = 0  # of the grading whose news are heard; of one that was given up none are

    def prepare(self, kata: Kata) -> None:
        """Let the judge know the oracles before the clock runs."""
        self.judge.prepare(kata)

    def begin(self, entry: Entry, options: Options | None = None, script: bool = False) -> None:
        """Start grading."""
        self._number += 1
        given = (self._number, entry, options or self.options, script)
        threading.Thread(target=self._grade, args=given, daemon=True).start()

    def _grade(self, number: int, entry: Entry, options: Options, script: bool) -> None:
        def heard(news: object) -> None:
            self._news.put((number, news))

        try:
            heard(self.judge.grade(entry, options, heard, script))
        except Exception as trouble:
            heard(trouble)

    def verdict(
        self,
        timeout: float,
        ran: Callable[[ScriptRun], None] = lambda run: None,
        checked: Callable[[Check], None] = lambda check: None,
    ) -> Verdict | None:
        """The verdict on what was begun, if it comes within `timeout` seconds. Raises what the judge raised."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                number, news = self._news.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if number != self._number:
                continue
            if isinstance(news, Exception):
                raise news
            if isinstance(news, ScriptRun):
                ran(news)
            elif isinstance(news, Check):
                checked(news)
            elif isinstance(news, Verdict):
                return news

    def grade(self, entry: Entry, options: Options | None = None) -> Verdict:
        """Grade to the end."""
        self.begin(entry, options)
        while (verdict := self.verdict(1.0)) is None:
            pass
        return verdict


class Live:
    """A session that pages show: what it is at, what was said, and the thread that holds it. It is a `Desk`."""

    recorded = hears = True

    def __init__(self, judge: ResidentProcess, kind: str, folder: Path) -> None:
        self.judge, self.kind, self.folder = judge, kind, folder
        self.clients: list[Client] = []
        self.listeners: dict[object, Callable[[], None]] = {}  # of pages: show what has changed
        self.hidden_clock = False
        self._wishes: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._events: asyncio.AbstractEventLoop | None = None
        self._closing, self._seen = False, time.monotonic()
        self._reset()

    def _reset(self) -> None:
        self.rounds = rounds_in(self.folder)
        self.held = current(self.rounds)
        self.phase, self.trouble = Phase.OPENING, ""
        self.said: list[Said] = []
        self.coming: list[Check] = []  # of the grading that goes on
        self.grading, self.graded_since = "", 0.0
        self.verdicts: dict[str, tuple[Verdict, float]] = {}  # the last of each kata, and when its file was saved
        self.runs: list[tuple[str, float, ScriptRun]] = []
        self.reading: Reading | None = None
        self.about, self.shown = "", ""
        self.posed: Posed | None = None
        self.number, self.count = 0, 0
        self.final: dict[str, Verdict] = {}

    # for pages, in the thread of the server's events

    def attend(self, client: Client) -> None:
        """Go on, as a page shows the session now."""
        self._events = asyncio.get_running_loop()
        self.clients = [each for each in self.clients if each is not client and not each.is_deleted] + [client]
        stopped = self._thread is not None and not self._thread.is_alive() and self.phase in (Phase.LEFT, Phase.TROUBLE)
        if self._thread is None or stopped:
            self._reset()
            self._wishes = queue.SimpleQueue()
            self._thread = threading.Thread(target=self._hold, daemon=True)
            self._seen = time.monotonic()
            self._thread.start()
        self._changed()

    def wish(self, what: object) -> None:
        """Let the session know what its user wants."""
        self._wishes.put(what)

    def close(self) -> None:
        """Stop the clock, and keep how far it has come."""
        self._closing = True
        if self._thread:
            self._thread.join(2.0)

    @property
    def round(self) -> int:
        """Which of the rounds this is, from 1."""
        return self.rounds.index(self.held) + 1

    # the thread that holds it

    def _hold(self) -> None:
        try:
            self._held()
        except Left:
            self._to(Phase.LEFT)
        except Trouble as trouble:
            self.trouble = str(trouble)
            self._to(Phase.TROUBLE)
        except Exception:
            self.trouble = f"this is our fault, please report it:\n{traceback.format_exc()}"
            self._to(Phase.TROUBLE)

    def _held(self) -> None:
        if all(held.concluded for held in self.rounds):
            grader = JudgeGrader(self.judge, diagnose=self.kind != "hunt")
            again = self.rounds if self.kind != "review" else ()
            for held in again:
                self.final |= mock.grade_once_more(held, grader, held.katas, self.say)
            self._to(Phase.OVER)
        elif self.kind == "mock":
            mock.hold_rounds(self.rounds, self, self._conclude)
        elif self.kind == "review":
            review.hold(self.held, self, lambda held, result: self._conclude([held], {}))
        elif self.kind == DRILL:
            drill.hold(self.held, self, self._conclude)
        else:
            (assistant if self.held.change else mock).hold(self.held, self, self._conclude)

    def _conclude(self, rounds: Sequence[TimedSession], final: dict[str, Verdict]) -> None:
        for held in rounds:
            questions.keep_answers(held)
        self.final = final
        self._to(Phase.OVER)

    def _to(self, phase: Phase) -> None:
        self.phase = phase
        self._tell()

    def _tell(self) -> None:
        if self._events and not self._events.is_closed():
            self._events.call_soon_threadsafe(self._changed)

    def _changed(self) -> None:
        for show in list(self.listeners.values()):
            show()

    def _wanted(self, wait: float = 0.0) -> Any:
        """The next wish of the user's, None without one. Raises Left."""
        if any(client.has_socket_connection for client in self.clients):
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > GONE:
            raise Left
        if self._closing:
            raise Left
        try:
            return self._wishes.get(timeout=wait) if wait else self._wishes.get_nowait()
        except queue.Empty:
            return None

    def _until(self, wanted: Iterable[str]) -> Any:
        """Wait for one of these wishes, each of which is a word and what belongs to it."""
        while True:
            wish = self._wanted(TICK)
            if wish and wish[0] in wanted:
                return wish

    # a desk: see `Desk`

    def grader(self, diagnose: bool = True) -> AbstractContextManager[JudgeGrader]:
        return nullcontext(JudgeGrader(self.judge, diagnose))

    def hand_out(self, held: TimedSession) -> None:
        self._take(held)
        self._await_begin(held)
        self._recall(held)

    def _take(self, held: TimedSession) -> None:
        """Turn to a session, the next round of a mock for instance."""
        if held is not self.held:
            self.held, self.said, self.verdicts, self.runs = held, [], {}, []

    def _await_begin(self, held: TimedSession) -> None:
        if held.end is End.OPEN and not held.spent:
            threading.Thread(target=self._prepare, args=(held,), daemon=True).start()
            self._to(Phase.BEGIN)
            self._until(["begin"])
        self._to(Phase.OPENING)

    def _prepare(self, held: TimedSession) -> None:
        """Let the judge get ready while its user reads what begins."""
        with suppress(Exception):  # whoever grades is told
            for name in held.katas if self.kind != "review" else ():
                self.judge.prepare(catalog.katas()[name])

    def _recall(self, held: TimedSession) -> None:
        """Say again what was said before the server was ended."""
        if self.said:
            return
        for inquiry in inquiries.asked(held.folder):
            known = inquiries.bullets(catalog.katas()[inquiry.kata], inquiry.stage)
            found = "\n\n".join(known[topic] for topic in inquiry.topics if topic in known)
            self.said += [Said("You", inquiry.text), Said("Interviewer", found or inquiries.UP_TO_YOU, markdown=True)]
        self.said += [Said(f"Hint: {which}", text, markdown=True) for which, text in ladder.hints_taken(held)]

    def run(self, loop: SessionLoop) -> End:
        if loop.going:
            self._to(Phase.CODE)
        try:
            while loop.going:
                while (wish := self._wanted()) is not None:
                    if wish[0] == "hear":
                        loop.hear(wish[1])
                        self._tell()
                before = loop.session.end, bool(loop.graded)
                loop.step()
                if before != (loop.session.end, bool(loop.graded)):
                    self.grading = loop.graded or ""
                    self._tell()
        except Left:
            pass  # it is cut off, as by Ctrl-C
        finally:
            loop.stop()
            self.grading = ""
        return loop.session.end

    def read(self, reading: Reading, title: str, about: str, ends: str) -> bool:
        self.about = about
        self._await_begin(reading.held)
        self.reading = reading
        self._to(Phase.READING)
        try:
            while not reading.over:
                said = reading.step()
                wish = self._wanted(TICK)
                if wish and wish[0] == "hear":
                    said = [*said, reading.hear(wish[1])]
                    self._tell()
                for text in filter(None, said):
                    self.say(text)
        finally:
            reading.stop()
            self.reading = None
        self.said = []
        return reading.over

    def rest(self, number: int, rounds: Sequence[TimedSession]) -> bool:
        return True  # a round begins when its user says so

    def question(self, posed: Posed, number: int, count: int) -> Answer | None:
        self._take(next(held for held in self.rounds if posed.card.kata.name in held.katas))
        self.posed, self.number, self.count, self.shown = posed, number, count, ""
        self._to(Phase.QUESTION)
        word, given = self._until(["show", "skip", "leave"])
        if word == "show":
            self.shown = posed.show(given.strip()) or posed.typed or "(aloud)"
            self._tell()
            word, given = self._until(["rate", "skip", "leave"])
        self._to(Phase.LAST)
        if word == "leave":
            raise KeyboardInterrupt  # as Ctrl-C at a terminal
        return posed.rated(given) if word == "rate" else None

    def say(self, text: str) -> None:
        if text.strip():
            self._add(Said("", text.strip()))

    def interviewer(self, text: str) -> None:
        self._add(Said("Interviewer", text))

    def answer(self, question: str, text: str) -> None:
        self.said.append(Said("You", question))
        self._add(Said("Interviewer", text, markdown=True))

    def hint(self, which: str, text: str) -> None:
        self._add(Said(f"Hint: {which}", text, markdown=True))

    def stage(self, kata: Kata, stage: Stage, path: Path) -> None:
        if self._events:
            grown = asyncio.run_coroutine_threadsafe(self._grow(kata, stage.number, path), self._events)
            with suppress(TimeoutError):  # then the editor shows both
                grown.result(10 * TICK)
        self._add(Said("", f"Stage {stage.number} is open. Its signatures are in your file; the rest is as it was."))

    async def _grow(self, kata: Kata, number: int, path: Path) -> None:
        draft_of(path, kata.home).grow(lambda text: stages.opened(kata, text, number))

    def script(self, name: str, at: float, run: ScriptRun) -> None:
        self.runs.append((name, at, run))
        self._tell()

    def begun(self, name: str) -> None:
        self.grading, self.coming, self.graded_since = name, [], time.monotonic()
        self._tell()

    def checked(self, check: Check) -> None:
        self.coming.append(check)

    def graded(self, verdict: Verdict) -> None:
        self.verdicts[verdict.kata] = (verdict, self.held.events[-1].at)
        self._tell()

    def over(self, held: TimedSession, why: str) -> None:
        self._take(held)
        self.about = why
        self._to(Phase.LAST)

    def cut_off(self, rounds: Sequence[TimedSession], held: TimedSession) -> int:
        raise Left

    def _add(self, said: Said) -> None:
        self.said.append(said)
        self._tell()


SESSIONS: dict[Path, Live] = {}


def find(judge: ResidentProcess, kind: str, name: str) -> Live:
    """The session of this name as it is held here. Raises Trouble where there is none."""
    folder = catalog.ROOT / f"{kind}s" / name
    if kind not in KINDS or Path(name).name != name or not folder.is_dir():
        raise Trouble(f"there is no {kind} of the name {name}: all that there are stand on the page of interviews")
    if folder not in SESSIONS:
        SESSIONS[folder] = Live(judge, kind, folder)
    return SESSIONS[folder]


def close_all() -> None:
    """Stop every clock, for the server ends."""
    for session in SESSIONS.values():
        session.close()


def current(rounds: Sequence[TimedSession]) -> TimedSession:
    """The round that is held now: the first in which code is left to be written, else the last."""
    return next((held for held in rounds if held.end is End.OPEN), rounds[-1])


def rounds_in(folder: Path) -> list[TimedSession]:
    """The rounds of a mock, or the one session that stands in a folder. Raises Trouble."""
    if (folder / timed_session.STATE).exists():
        return [timed_session.load(folder)]
    found = [timed_session.load(path.parent) for path in sorted(folder.glob(f"*/{timed_session.STATE}"))]
    if not found:
        raise Trouble(f"{folder} holds no session ({timed_session.STATE} is missing)")
    return found
