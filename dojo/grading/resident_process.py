"""A resident grader in a process of its own, for an owner that has threads and must import no torch.

It is forked from the process that its workers come from. What it is asked and what it answers are pickled between the
two, as in `judge_process`; nothing that an attempt has made is.
"""

from __future__ import annotations

import os
import socket
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from dojo.content import catalog
from dojo.content.catalog import Trouble
from dojo.grading.options import fresh_seed
from dojo.judge.fork_server import ForkServer, start_judge

if TYPE_CHECKING:
    from dojo.content.catalog import Kata
    from dojo.grading.options import Entry, Options
    from dojo.grading.resident import ResidentGrader
    from dojo.grading.run import ScriptRun
    from dojo.verdict.types import Check, Verdict

TICK = 0.02  # seconds between two looks at whether the grading is to be given up


class Canceled(Exception):
    """The grading was given up, as its user wanted."""


@dataclass(frozen=True)
class Asked:
    """What is to be graded: an entry with its options, as a script too if its user hears nothing else."""

    entry: Entry
    options: Options
    script: bool = False


class ResidentProcess:
    """Grades one entry at a time. `grade` may be called from any thread, and waits for those before it."""

    def __init__(self, around: Sequence[str] = ()) -> None:
        """`around` are the words of a sandbox, if the attempts are to be in one."""
        self.seed = fresh_seed()  # with which `prepare` grades
        self._process, channel = start_judge(f"{__name__}:serve")
        self._channel = Connection(channel.detach())
        self._turn = threading.Lock()
        self._channel.send((dict(os.environ) | {"DOJO_ROOT": str(catalog.ROOT)}, tuple(around), self.seed))

    def prepare(self, kata: Kata) -> None:
        """Grade the solution, so that oracles are known before the first attempt is there; a second time is nothing."""
        with self._turn:
            self._ask(kata, lambda news: None, threading.Event())

    def grade(
        self,
        entry: Entry,
        options: Options,
        heard: Callable[[Check | ScriptRun], None],
        script: bool = False,
        given_up: threading.Event | None = None,
    ) -> Verdict:
        """The verdict; `heard` is told of each check as it ends, and of the run of the file as a script.

        Once `given_up` is set the grading ends, or does not begin. Raises Canceled, Trouble, or RuntimeError with the
        trace of what failed in the judge.
        """
        given_up = given_up or threading.Event()
        while not self._turn.acquire(timeout=TICK):
            if given_up.is_set():
                raise Canceled
        try:
            return self._ask(Asked(entry, options, script), heard, given_up)
        finally:
            self._turn.release()

    def _ask(self, what: object, heard: Callable[[Any], None], given_up: threading.Event) -> Any:
        try:
            self._channel.send(what)
            while True:
                if not self._channel.poll(TICK):
                    if given_up.is_set():
                        self._channel.send("cancel")
                elif isinstance(message := self._channel.recv(), _End):
                    break
                else:
                    heard(message)
        except (EOFError, OSError):
            raise RuntimeError("the judge has died; please report this as our fault") from None
        if isinstance(message.what, Exception):
            raise message.what
        return message.what

    def close(self) -> None:
        """End the judge with every worker."""
        self._channel.close()
        self._process.terminate()
        self._process.wait()


@dataclass(frozen=True)
class _End:
    """The last message about what was asked: a verdict, nothing, or an exception."""

    what: Any


def serve(descriptor: int, control: socket.socket) -> None:
    """The judge: do what arrives on the channel, until its other end is closed."""
    channel = Connection(descriptor)
    os.environ.clear()  # it was bare for the workers' sake
    environment, around, seed = channel.recv()
    os.environ.update(environment)
    from dojo.grading.resident import ResidentGrader

    server = ForkServer(around=around) if around else ForkServer(control=control)
    grader = ResidentGrader(seed, server=server)
    prepared = set[str]()
    try:
        while True:
            asked = channel.recv()
            if asked == "cancel":  # it came too late
                continue
            channel.send(_End(_done(asked, grader, channel, prepared)))
    except (EOFError, OSError):
        grader.close()


def _done(asked: Asked | Kata, grader: ResidentGrader, channel: Connection, prepared: set[str]) -> Any:
    """What comes of one thing that was asked."""
    try:
        if not isinstance(asked, Asked):
            if asked.name not in prepared:
                prepared.add(asked.name)
                grader.prepare(asked)
            return None
        grader.begin(asked.entry, asked.options, script=asked.script)
        while (verdict := grader.verdict(TICK, channel.send, channel.send)) is None:
            if channel.poll():
                channel.recv()
                grader.cancel()
                prepared.clear()
                return Canceled()
        return verdict
    except (Trouble, ModuleNotFoundError) as error:
        return error
    except Exception:
        return RuntimeError(traceback.format_exc())
