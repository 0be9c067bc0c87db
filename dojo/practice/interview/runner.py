"""Runs a timed session: files are watched, saves graded, keys heard.

It runs as the one test of this module, `test_session`, and pytest-timeout ends it at the deadline.
"""

from __future__ import annotations

import select
import shutil
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dojo.content import catalog, master
from dojo.content.catalog import Trouble
from dojo.practice.interview import inquiries, ladder
from dojo.practice.interview.status_line import clock, status
from dojo.practice.interview.timed_session import End, TimedSession
from dojo.verdict.screen.text import clean, encodable, filled

if TYPE_CHECKING:
    from dojo.grading.resident import ResidentGrader
    from dojo.grading.run import ScriptRun
    from dojo.verdict.screen.terminal import Screen
    from dojo.verdict.types import Verdict

SHOWN = 20  # lines of what a file printed
HEARTBEAT = 2.0  # seconds between two writings of the state


class Runner:
    """Runs a session: files are watched, saves graded, keys heard, and the clock runs."""

    def __init__(self, session: TimedSession, grader: ResidentGrader, screen: Screen) -> None:
        from dojo.content.watcher import Saves

        self.session, self.grader, self.screen = session, grader, screen
        self.known = {name: catalog.katas()[name] for name in session.katas}
        self.saves = {name: Saves(session.path(name)) for name in session.katas}
        self.waiting: dict[str, bytes] = {}
        self.graded: str | None = None  # what the grader is busy with
        self.listening = True
        self._status, self._beat, self._saved, self._unkept = "", 0.0, 0.0, ""
        self._ladder = ladder.of(session)
        self._questions, self._answered = Saves(session.folder / inquiries.FILE), len(inquiries.asked(session.folder))
        for kata in self.known.values():
            grader.prepare(kata)

    def run(self) -> None:
        """Go on until everything passes or the user ends it; a test's timeout may end it from outside."""
        session, started, before = self.session, time.monotonic(), self.session.spent
        try:
            while session.end is End.OPEN:
                session.spent = before + time.monotonic() - started
                self._listen()
                self._interview()
                self._look()
                if not session.silent and all(map(session.passed, session.katas)):
                    session.end = End.SOLVED
                if time.monotonic() - self._beat > HEARTBEAT:
                    self._beat = time.monotonic()
                    self._keep()
                self._show_status()
        except KeyboardInterrupt:
            pass
        finally:
            session.spent = before + time.monotonic() - started
            self._wipe()
            self._keep()

    def _interview(self) -> None:
        """Say what an interviewer would say now: to what was asked in another terminal, and unasked."""
        if self._questions.new() is not None:
            for inquiry in inquiries.asked(self.session.folder)[self._answered :]:
                self._answered += 1
                self._say(f"{clock(inquiry.at)} · you asked: {inquiry.text}")
        for remark in ladder.remarks(self.session, self._ladder) if self._ladder else ():
            self.session.remarked.append(remark.key)
            self._say(filled(f"Interviewer: {remark.text}", sys.stdout))

    def _open_next(self) -> None:
        """Open the next stage and show what is asked now; after the last there is none."""
        assert self._ladder is not None
        try:
            stage = ladder.open_next(self.session, self._ladder)
        except (OSError, Trouble) as trouble:
            self._say(f"dojo: stage {self.session.stage + 1} is not open: {trouble}. Mend that, then type `next`.")
            return
        if stage is None:
            self._say("That was the last stage: go on mending, or `q` ends it.")
            return
        self._wipe()
        self.screen.markdown(f"\n{ladder.prompt(self._ladder, stage)}\n")
        where = self._ladder.say(self.session.path(self._ladder.name))
        self._say(filled(f"Its signatures are in {where}; the rest is as it was.", sys.stdout))

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
        verdict = self.grader.verdict(0.02, self._heard)
        if verdict is not None:
            name, self.graded = self.graded, None
            self._note(name, verdict)

    def _begin(self, name: str) -> None:
        try:
            entry = self.session.entry(name)
        except Trouble as trouble:
            self._say(f"dojo: {trouble}")
            return
        fresh = entry.source == self.session.handed_out.get(name) and (
            self.session.last(name) is None or bool(self._ladder)
        )
        if fresh or master.is_untouched(self.known[name], entry.source):
            return  # it is being read: nothing is graded before the first save
        self.graded, self._saved = name, self.session.spent
        options = replace(self.grader.options, stage=self.session.stage) if self._ladder else None
        self.grader.begin(entry, options, script=self.session.silent)

    def _heard(self, run: ScriptRun) -> None:
        """Show what a file said when it was run, and whether its own asserts hold."""
        name = self.graded or ""
        word = "is wrong on the example you gave" if run.outcome == "wrong" else run.outcome
        self.session.ran[name] = run.outcome
        headline = f"{clock(self._saved)} · {name} {word}{run.error and ': ' + run.error}"
        printed = [f"  │ {line}" for line in clean(f"{run.printed}\n{run.lines}") if line]
        cut = [f"  … {len(printed) - SHOWN} lines before"] if len(printed) > SHOWN else []
        self._say(encodable("\n".join([*clean(headline), *cut, *printed[-SHOWN:]]), sys.stdout))

    def _note(self, name: str, verdict: Verdict) -> None:
        self.session.note(name, verdict, self._saved)
        if not self.session.silent:
            self._wipe()
            self.screen.failures(verdict)
        self._keep()
        if self._ladder and self.session.stage < self.session.stages and verdict.reached == self.session.stage:
            self._open_next()

    def _listen(self) -> None:
        """Take what the user typed, a line at a time."""
        try:
            while self.listening and select.select([sys.stdin], [], [], 0)[0]:
                line = sys.stdin.readline()
                if not line:
                    self.listening = False
                word = line.strip().lower()
                if word in ("q", "quit"):
                    self.session.end = End.ENDED
                elif word in ("h", "hint"):
                    self._hint()
                elif word in ("n", "next") and self._ladder:
                    self._open_next()
                elif question := line.strip().removeprefix("ask").strip():
                    self._ask(question)
        except (OSError, ValueError):
            self.listening = False  # no keyboard here

    def _ask(self, question: str) -> None:
        """Answer a question from the contract, and keep it."""
        try:
            answer = inquiries.ask(self.session, question)
        except OSError as trouble:
            self._say(f"dojo: your question cannot be kept: {trouble}. Mend that, then ask again.")
            return
        self._answered = len(inquiries.asked(self.session.folder))
        self._wipe()
        self.screen.markdown(answer)

    def _hint(self) -> None:
        name = next((name for name in self.session.katas if not self.session.passed(name)), None)
        if name is None:
            return
        if self.session.real:
            self._say("An interview has no hints: ask nothing that a colleague would not tell.")
            return
        hints, taken, what = master.hints(self.known[name]), self.session.hints.get(name, 0), name
        if self._ladder:  # those of the stage that is open
            number, what = str(self.session.stage), f"stage {self.session.stage}"
            hints, taken = list(ladder.stage_of(self.session, self._ladder).hints), self.session.hinted.get(number, 0)
        if taken >= len(hints):
            self._say(f"{what} has no more hints than the {len(hints)} you have seen.")
            return
        if self._ladder:
            self.session.hinted[number] = taken + 1
        self.session.hints[name] = self.session.hints.get(name, 0) + 1
        self._wipe()
        self.screen.markdown(f"{what}, hint {taken + 1} of {len(hints)}: {hints[taken]}\n")

    def _keep(self) -> None:
        """Write the state; where there is no room for it that is told once, and the session goes on."""
        try:
            self.session.save()
            self._unkept = ""
        except OSError as trouble:
            if self._unkept != str(trouble):
                self._unkept = str(trouble)
                self._say(f"dojo: how far you are cannot be kept: {trouble}. Your own file is not touched.")

    def _say(self, text: str) -> None:
        self._wipe()
        print(text, flush=True)

    def _show_status(self) -> None:
        """One line that stays where it is."""
        if not sys.stdout.isatty():
            return
        line = status(self.session, bool(self.graded), shutil.get_terminal_size().columns - 1)
        if line != self._status:
            self._status = line
            sys.stdout.write(f"\r\x1b[2K{line}")
            sys.stdout.flush()

    def _wipe(self) -> None:
        if self._status and sys.stdout.isatty():
            sys.stdout.write("\r\x1b[2K")
            sys.stdout.flush()
        self._status = ""


def run_until_deadline(runner: Runner) -> End:
    """Run a session under pytest, where its timeout is the deadline."""
    import pytest

    class Plugin:
        """Hands the runner to the test, and keeps pytest's own words off the screen."""

        @pytest.fixture
        def runner(self) -> Runner:
            return runner

        @pytest.hookimpl(tryfirst=True)
        def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str]:
            return "", "", ""

    session = runner.session
    words = [__file__, "-o", f"python_files={Path(__file__).name}", "-c", "/dev/null", f"--rootdir={catalog.ROOT}"]
    words += ["--disable-plugin-autoload", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    words += [f"--timeout={session.left}", "--timeout-method=signal"]
    words += ["-s", "-qq", "--tb=no", "--no-header", "--no-summary"]
    pytest.main(words, plugins=[Plugin()])
    if session.end is End.OPEN and session.left < 0.5:
        session.end = End.TIME
    session.save()
    return session.end


def test_session(runner: Runner) -> None:
    """The one test of a session."""
    runner.run()
