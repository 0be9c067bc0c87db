"""A timed session as it goes: saves are graded, stages open, the interviewer speaks, and the state is kept.

What happens is told to a `Desk`, which shows it on a terminal (`runner`) or on a page.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from dojo.content import catalog, master
from dojo.content.catalog import Trouble
from dojo.practice.interview import inquiries, ladder
from dojo.practice.interview.status_line import clock
from dojo.practice.interview.timed_session import End, Stopwatch, TimedSession

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dojo.content.catalog import Kata
    from dojo.content.stages import Stage
    from dojo.grading.options import Entry, Options
    from dojo.grading.run import ScriptRun
    from dojo.practice.database import Answer
    from dojo.practice.hunt.reading import Reading
    from dojo.practice.interview.questions import Posed
    from dojo.verdict.types import Check, Verdict

HEARTBEAT = 2.0  # seconds between two writings of the state
TICK = 0.02  # seconds that a step waits for news


class Grader(Protocol):
    """What grades a session's files, one at a time: a `ResidentGrader`, or a page's."""

    options: Options

    def prepare(self, kata: Kata) -> None: ...
    def begin(self, entry: Entry, options: Options | None = None, script: bool = False) -> None: ...
    def verdict(
        self,
        timeout: float,
        ran: Callable[[ScriptRun], None] = ...,
        checked: Callable[[Check], None] = ...,
    ) -> Verdict | None: ...
    def grade(self, entry: Entry, options: Options | None = None) -> Verdict: ...


class Desk(Protocol):
    """Where a session is held: it shows what happens and hears its user. Who leaves it raises KeyboardInterrupt."""

    recorded: bool  # whether the history shall have it

    @property
    def hears(self) -> bool:
        """Whether somebody is there to answer questions."""

    def grader(self, diagnose: bool = True) -> AbstractContextManager[Grader]: ...

    # what is asked, and the time in which it is done
    def hand_out(self, held: TimedSession) -> None: ...
    def run(self, loop: SessionLoop) -> End: ...
    def read(self, reading: Reading, title: str, about: str, ends: str) -> bool: ...
    def rest(self, number: int, rounds: Sequence[TimedSession]) -> bool: ...
    def question(self, posed: Posed, number: int, count: int) -> Answer | None: ...

    # what happens meanwhile
    def say(self, text: str) -> None: ...
    def interviewer(self, text: str) -> None: ...
    def answer(self, question: str, text: str) -> None: ...
    def hint(self, which: str, text: str) -> None: ...
    def stage(self, kata: Kata, stage: Stage, path: Path) -> None: ...
    def script(self, name: str, at: float, run: ScriptRun) -> None: ...
    def begun(self, name: str) -> None: ...
    def checked(self, check: Check) -> None: ...
    def graded(self, verdict: Verdict) -> None: ...

    # how it ends
    def over(self, held: TimedSession, why: str) -> None: ...
    def cut_off(self, rounds: Sequence[TimedSession], held: TimedSession) -> int: ...


class SessionLoop:
    """The rules by which a session goes; whoever runs it calls `step` until it is over, then `stop`."""

    def __init__(self, session: TimedSession, grader: Grader, desk: Desk) -> None:
        from dojo.content.watcher import Saves

        self.session, self.grader, self.desk = session, grader, desk
        self.known = {name: catalog.katas()[name] for name in session.katas}
        self.saves = {name: Saves(session.path(name)) for name in session.katas}
        self.waiting: dict[str, bytes] = {}
        self.graded: str | None = None  # what the grader is busy with
        self.ladder = ladder.of(session)
        self._watch, self._beat, self._saved, self._unkept = Stopwatch(session), 0.0, 0.0, ""
        self._questions, self._answered = Saves(session.folder / inquiries.FILE), len(inquiries.asked(session.folder))
        for kata in self.known.values():
            grader.prepare(kata)

    @property
    def going(self) -> bool:
        """Whether there is something left to do, and time."""
        return self.session.end is End.OPEN

    def step(self) -> None:
        """See what is new and do what follows from it; the clock runs from the first step on."""
        self._watch.tick()
        self._interview()
        self._look()
        if not self.session.silent and all(map(self.session.passed, self.session.katas)):
            self.session.end = End.SOLVED
        elif self.going and not self.session.left:
            self.session.end = End.TIME
        if time.monotonic() - self._beat > HEARTBEAT:
            self._beat = time.monotonic()
            self.keep()

    def stop(self) -> None:
        """Stop the clock, and keep how far it has come."""
        self._watch.tick()
        self.keep()

    def hear(self, line: str) -> None:
        """Do what was typed: a word, or a question to the interviewer."""
        word = line.strip().lower()
        if word in ("q", "quit"):
            self.session.end = End.ENDED
        elif word in ("h", "hint"):
            self.hint()
        elif word in ("n", "next") and self.ladder:
            self.open_next()
        elif question := line.strip().removeprefix("ask").strip():
            self.ask(question)

    def ask(self, question: str) -> None:
        """Answer a question from the contract, and keep it."""
        try:
            answer = inquiries.ask(self.session, question)
        except OSError as trouble:
            self.desk.say(f"dojo: your question cannot be kept: {trouble}. Mend that, then ask again.")
            return
        self._answered = len(inquiries.asked(self.session.folder))
        self.desk.answer(question, answer)

    def hint(self) -> None:
        """Give the next hint: of the stage that is open, else of the first kata that has not passed."""
        name = next((name for name in self.session.katas if not self.session.passed(name)), None)
        if name is None:
            return
        if self.session.real:
            self.desk.say("An interview has no hints: ask nothing that a colleague would not tell.")
            return
        hints, taken, what = master.hints(self.known[name]), self.session.hints.get(name, 0), name
        if self.ladder:  # those of the stage that is open
            number, what = str(self.session.stage), f"stage {self.session.stage}"
            hints, taken = list(ladder.stage_of(self.session, self.ladder).hints), self.session.hinted.get(number, 0)
        if taken >= len(hints):
            self.desk.say(f"{what} has no more hints than the {len(hints)} you have seen.")
            return
        if self.ladder:
            self.session.hinted[number] = taken + 1
        self.session.hints[name] = self.session.hints.get(name, 0) + 1
        self.desk.hint(f"{what}, hint {taken + 1} of {len(hints)}", hints[taken])

    def open_next(self) -> None:
        """Open the next stage and show what is asked now; after the last there is none."""
        assert self.ladder is not None
        try:
            stage = ladder.open_next(self.session, self.ladder)
        except (OSError, Trouble) as trouble:
            number = self.session.stage + 1
            self.desk.say(f"dojo: stage {number} is not open: {trouble}. Mend that, then type `next`.")
            return
        if stage is None:
            self.desk.say("That was the last stage: go on mending, or `q` ends it.")
            return
        self.desk.stage(self.ladder, stage, self.session.path(self.ladder.name))

    def keep(self) -> None:
        """Write the state; where there is no room for it that is told once, and the session goes on."""
        try:
            self.session.save()
            self._unkept = ""
        except OSError as trouble:
            if self._unkept != str(trouble):
                self._unkept = str(trouble)
                self.desk.say(f"dojo: how far you are cannot be kept: {trouble}. Your own file is not touched.")

    def _interview(self) -> None:
        """Say what an interviewer would say now: to what was asked in another terminal, and unasked."""
        if self._questions.new() is not None:
            for inquiry in inquiries.asked(self.session.folder)[self._answered :]:
                self._answered += 1
                self.desk.say(f"{clock(inquiry.at)} · you asked: {inquiry.text}")
        for key, text in ladder.remarks(self.session, self.ladder).items() if self.ladder else ():
            self.session.remarked.append(key)
            self.desk.interviewer(text)

    def _look(self) -> None:
        """Grade what has been saved, one file at a time; this is where a step waits."""
        for name, saves in self.saves.items():
            content = saves.new()
            if content is not None:
                self.waiting[name] = content
        if self.graded is None:
            if not self.waiting:
                time.sleep(TICK)
                return
            name, _ = next(iter(self.waiting.items()))
            del self.waiting[name]
            self._begin(name)
            return
        verdict = self.grader.verdict(TICK, self._heard, self._checked)
        if verdict is not None:
            name, self.graded = self.graded, None
            self._note(name, verdict)

    def _begin(self, name: str) -> None:
        try:
            entry = self.session.entry(name)
        except Trouble as trouble:
            self.desk.say(f"dojo: {trouble}")
            return
        fresh = entry.source == self.session.handed_out.get(name) and (
            self.session.last(name) is None or bool(self.ladder)
        )
        if fresh or master.is_untouched(self.known[name], entry.source):
            return  # it is being read: nothing is graded before the first save
        self.graded, self._saved = name, self.session.spent
        options = replace(self.grader.options, stage=self.session.stage) if self.ladder else None
        self.desk.begun(name)
        self.grader.begin(entry, options, script=self.session.silent)

    def _heard(self, run: ScriptRun) -> None:
        """Take what a file said when it was run, and whether its own asserts hold."""
        name = self.graded or ""
        self.session.ran[name] = run.outcome
        self.desk.script(name, self._saved, run)

    def _checked(self, check: Check) -> None:
        if not self.session.silent:
            self.desk.checked(check)

    def _note(self, name: str, verdict: Verdict) -> None:
        self.session.note(name, verdict, self._saved)
        if not self.session.silent:
            self.desk.graded(verdict)
        self.keep()
        if self.ladder and self.session.stage < self.session.stages and verdict.reached == self.session.stage:
            self.open_next()
