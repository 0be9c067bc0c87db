"""Holds sessions in a terminal: what happens is printed, and what is typed is heard.

The time to write code runs as the one test of this module, `test_session`, and pytest-timeout ends it at the deadline.
"""

from __future__ import annotations

import select
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dojo.content import catalog, master
from dojo.content.catalog import typed
from dojo.grading.options import fresh_seed
from dojo.practice.interview import ladder, questions
from dojo.practice.interview.status_line import clock, keys, spoken, status
from dojo.practice.interview.timed_session import End, TimedSession
from dojo.verdict.screen.text import clean, encodable, filled

if TYPE_CHECKING:
    from dojo.content.catalog import Kata
    from dojo.content.stages import Stage
    from dojo.grading.resident import ResidentGrader
    from dojo.grading.run import ScriptRun
    from dojo.practice.database import Answer
    from dojo.practice.hunt.reading import Reading
    from dojo.practice.interview.questions import Posed
    from dojo.practice.interview.session_loop import SessionLoop
    from dojo.verdict.types import Check, Verdict

SHOWN = 20  # lines of what a file printed
SILENT = (
    "Every save runs your file and shows what it prints or raises; the verdict comes at the end. Under "
    '`if __name__ == "__main__":` you may assert what you know, the example for instance.'
)


class TerminalDesk:
    """A `Desk` at a terminal."""

    def __init__(self, recorded: bool = True) -> None:
        from dojo.verdict.screen.terminal import Screen

        self.recorded, self.screen = recorded, Screen(sys.stdout)
        self._listening, self._status = True, ""

    @property
    def hears(self) -> bool:
        """Whether standard input is a terminal."""
        return sys.stdin.isatty()

    def grader(self, diagnose: bool = True) -> ResidentGrader:
        """A grader of this session's own."""
        from dojo.grading.resident import ResidentGrader

        return ResidentGrader(fresh_seed(), diagnose=diagnose)

    def hand_out(self, held: TimedSession) -> None:
        """Say what is asked."""
        staged = ladder.of(held)
        for name in held.katas if held.change is None else ():  # who has judged a change knows what is asked
            kata = catalog.katas()[name]
            print(filled(f"\n{kata.title}: {held.asks(name)} {kata.say(held.path(name))}\n", sys.stdout), flush=True)
            self.screen.markdown(ladder.prompt(staged, ladder.stage_of(held, staged)) if staged else master.ask(kata))

    def run(self, loop: SessionLoop) -> End:
        """Run the clock until everything passes, the time is up or the user ends it or leaves."""
        held, known = loop.session, loop.known
        files = " and ".join(known[name].say(held.path(name)) for name in held.katas)
        grading = SILENT if held.silent else f"Every save of {files} is graded."
        asking = " Type a question to ask the interviewer." if held.kind == "mock" and held.can_ask else ""
        print(filled(f"\n{spoken(held.left)} from now. {grading}{asking}\n{keys(held)}\n", sys.stdout), flush=True)
        return run_until_deadline(self, loop)

    def run_loop(self, loop: SessionLoop) -> None:
        """Go on until it is over; a test's timeout may end it from outside."""
        try:
            while loop.going:
                self._listen(loop)
                loop.step()
                self._show_status(loop)
        except KeyboardInterrupt:
            pass
        finally:
            self._wipe()
            loop.stop()

    def read(self, reading: Reading, title: str, about: str, ends: str) -> bool:
        """Show a change and hear remarks; whether the reading is over."""
        from dojo.practice.hunt.reader import Reader, present

        present(reading.held, title, about, ends)
        return Reader(reading).run()

    def rest(self, number: int, rounds: Sequence[TimedSession]) -> bool:
        """The break before a round, in which no clock runs; whether the mock goes on."""
        upcoming = rounds[number - 1]
        titles = " and ".join(catalog.katas()[name].title for name in upcoming.katas)
        line = "─" if (sys.stdout.encoding or "").lower().startswith("utf") else "-"
        print(f"{' Break ':{line}^72}\n")
        print(f"Round {number - 1} of {len(rounds)} is over. The clock stands still: get up, drink something.")
        print(f"Next: {titles}, {spoken(upcoming.left)}.\n", flush=True)
        try:
            input("Enter goes on, Ctrl-C goes on another day: " if sys.stdin.isatty() else "")
        except EOFError:
            pass  # nobody is there to wait for
        except KeyboardInterrupt:
            print()
            return False
        return True

    def question(self, posed: Posed, number: int, count: int) -> Answer | None:
        """Ask one question, show the points of a good answer, and take the rating; None where it is skipped."""
        return questions.at_terminal(posed, number, count, self.screen)

    def say(self, text: str) -> None:
        """A sentence about the session."""
        self._wipe()
        print(text, flush=True)

    def interviewer(self, text: str) -> None:
        """What the interviewer says unasked."""
        self.say(filled(f"Interviewer: {text}", sys.stdout))

    def answer(self, question: str, text: str) -> None:
        """What the interviewer answers, in Markdown."""
        self._wipe()
        self.screen.markdown(text)

    def hint(self, which: str, text: str) -> None:
        """A hint, in Markdown."""
        self._wipe()
        self.screen.markdown(f"{which}: {text}\n")

    def stage(self, kata: Kata, stage: Stage, path: Path) -> None:
        """What is asked now that a stage has opened."""
        self._wipe()
        self.screen.markdown(f"\n{ladder.prompt(kata, stage)}\n")
        where = kata.say(path)
        self.say(filled(f"Its signatures are in {where}; the rest is as it was.", sys.stdout))

    def script(self, name: str, at: float, run: ScriptRun) -> None:
        """What a file said when it was run, and whether its own asserts hold."""
        word = "is wrong on the example you gave" if run.outcome == "wrong" else run.outcome
        headline = f"{clock(at)} · {name} {word}{run.error and ': ' + run.error}"
        printed = [f"  │ {line}" for line in clean(f"{run.printed}\n{run.lines}") if line]
        cut = [f"  … {len(printed) - SHOWN} lines before"] if len(printed) > SHOWN else []
        self.say(encodable("\n".join([*clean(headline), *cut, *printed[-SHOWN:]]), sys.stdout))

    def begun(self, name: str) -> None:
        """A grading has begun: the status line says so."""

    def checked(self, check: Check) -> None:
        """A check has ended: a terminal waits for the verdict."""

    def graded(self, verdict: Verdict) -> None:
        """The verdict on what was saved."""
        self._wipe()
        self.screen.failures(verdict)

    def over(self, held: TimedSession, why: str) -> None:
        """The time to write code is over."""
        print(f"\n{why}. The last saved files are graded once more, with fresh inputs.\n", flush=True)

    def cut_off(self, rounds: Sequence[TimedSession], held: TimedSession) -> int:
        """Say how to go on, and return the exit status."""
        return cut_off(rounds, held)

    def _listen(self, loop: SessionLoop) -> None:
        """Take what the user typed, a line at a time."""
        try:
            while self._listening and select.select([sys.stdin], [], [], 0)[0]:
                line = sys.stdin.readline()
                if not line:
                    self._listening = False
                loop.hear(line)
        except (OSError, ValueError):
            self._listening = False  # no keyboard here

    def _show_status(self, loop: SessionLoop) -> None:
        """One line that stays where it is."""
        if not sys.stdout.isatty():
            return
        line = status(loop.session, bool(loop.graded), shutil.get_terminal_size().columns - 1)
        if line != self._status:
            self._status = line
            sys.stdout.write(f"\r\x1b[2K{line}")
            sys.stdout.flush()

    def _wipe(self) -> None:
        if self._status and sys.stdout.isatty():
            sys.stdout.write("\r\x1b[2K")
            sys.stdout.flush()
        self._status = ""


def cut_off(rounds: Sequence[TimedSession], held: TimedSession) -> int:
    """Say how to go on with a session that was left, and return the exit status."""
    kata = catalog.katas()[held.katas[0]]
    folder = kata.say(held.folder.parent if len(rounds) > 1 else held.folder)
    on = typed(f"{held.kind} --resume {folder}")
    print(filled(f"interrupted with {spoken(held.left)} left: `{on}` goes on.", sys.stdout))
    return 1


def run_until_deadline(desk: TerminalDesk, loop: SessionLoop) -> End:
    """Run a session under pytest, where its timeout is the deadline."""
    import pytest

    class Plugin:
        """Hands the session to the test, and keeps pytest's own words off the screen."""

        @pytest.fixture
        def desk(self) -> TerminalDesk:
            return desk

        @pytest.fixture
        def loop(self) -> SessionLoop:
            return loop

        @pytest.hookimpl(tryfirst=True)
        def pytest_report_teststatus(self, report: Any) -> tuple[str, str, str]:
            return "", "", ""

    session = loop.session
    words = [__file__, "-o", f"python_files={Path(__file__).name}", "-c", "/dev/null", f"--rootdir={catalog.ROOT}"]
    words += ["--disable-plugin-autoload", "-p", "pytest_timeout", "-p", "no:cacheprovider"]
    words += [f"--timeout={session.left}", "--timeout-method=signal"]
    words += ["-s", "-qq", "--tb=no", "--no-header", "--no-summary"]
    pytest.main(words, plugins=[Plugin()])
    if session.end is End.OPEN and session.left < 0.5:
        session.end = End.TIME
    session.save()
    return session.end


def test_session(desk: TerminalDesk, loop: SessionLoop) -> None:
    """The one test of a session."""
    desk.run_loop(loop)
