"""A pool of processes that grade: copies of the judge, forked with torch imported, each with its own fork server."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any

from dojo.judge.worker.isolation import confinement, kernel

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from dojo.judge.fork_server import ForkServer


def cores() -> list[int]:
    """The processors that we may use and keep a process to; none where the system does not tell."""
    return sorted(os.sched_getaffinity(0)) if sys.platform == "linux" else []


def processors() -> int:
    """How many gradings may run at once: one for each processor that we may use, where processes can be forked."""
    return len(cores()) or 1


class WorkerPool:
    """Processes that do `work(item, server)` for items. They start at once: start them before any thread.

    With `telling` it is `work(item, server, tell)`, and whatever is told on the way is heard at once.
    """

    def __init__(self, work: Callable[..., Any], server: ForkServer, size: int, telling: bool = False) -> None:
        self.server = server
        places: list[int | None] = list(cores() if size > 1 else ()) or [None]
        random.shuffle(places)  # several runs at once must not all crowd on the first ones
        self.processes = [PoolProcess(work, server, places[number % len(places)], telling) for number in range(size)]
        self._busy: list[PoolProcess] = []

    def map(self, items: list[Any], finished: Callable[[Any], None] = lambda result: None) -> list[Any]:
        """The results in the order of the items; `finished` hears of each as it comes.

        Raises RuntimeError with the trace of what failed in a process.
        """
        self.begin(items)
        while (results := self.results(None, finished)) is None:
            pass
        return results

    def begin(self, items: list[Any]) -> None:
        """Set to work on items, while the caller goes on; what was begun before is done first, and is not kept."""
        self._waiting = []
        while self._busy and self.results(None) is None:
            pass
        self._waiting, self._count = list(enumerate(items)), len(items)
        self._results: dict[int, Any] = {}
        self._busy = [process for process in self.processes if process.give(self._waiting)]

    def results(self, timeout: float | None, finished: Callable[[Any], None] = lambda result: None) -> list[Any] | None:
        """The results, once all are there; None when nothing, or not the last, has come in `timeout` seconds."""
        ready = wait([process.channel for process in self._busy], timeout) if self._busy else []
        for process in [each for each in self._busy if each.channel in ready]:
            number, result = process.take()
            finished(result)
            if number is None:
                continue
            self._results[number] = result
            if not process.give(self._waiting):
                self._busy.remove(process)
        return None if self._busy else [self._results[number] for number in range(self._count)]

    def abandon(self) -> None:
        """End the processes in the middle of what they do."""
        for process in self.processes:
            process.process.terminate()
        self.__exit__()

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.close()
        for process in self.processes:
            self.server.join(process.server)


class PoolProcess:
    """One process, which does the items that it is given.

    It keeps to one processor with its workers: they take turns, and waking another processor takes longer than most
    calls do, about a third of a grading in all.
    """

    def __init__(self, work: Callable[..., Any], server: ForkServer, core: int | None, telling: bool = False) -> None:
        self.server = server.split(core)
        context = get_context("fork")
        self.channel, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=_serve, args=(theirs, work, self.server, core, telling), daemon=True
        )
        self.process.start()
        theirs.close()
        self.server.control.close()  # it is the process's now

    def give(self, waiting: list[tuple[int, Any]]) -> bool:
        """Hand out the next item, if there is one."""
        if waiting:
            self.channel.send(waiting.pop(0))
            return True
        return False

    def take(self) -> tuple[int | None, Any]:
        """The number of the item that is done, and what came of it; no number for what is told on the way."""
        number, result, trace = self.channel.recv()
        if trace:
            raise RuntimeError(trace)
        return number, result

    def close(self) -> None:
        """End the process; its server then ends by itself, with its workers."""
        with contextlib.suppress(OSError):
            self.channel.send(None)  # a sibling has our end of the channel too, so that closing it would say nothing
        self.channel.close()
        self.process.join(timeout=1.0)
        self.process.terminate()
        self.process.join()


def _serve(channel: Connection, work: Callable[..., Any], server: ForkServer, core: int | None, telling: bool) -> None:
    kernel.die_with_parent()  # which may be killed: our end of the channel would never say so
    confinement.keep_to(core)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the first process to handle, which then ends us
    more = [lambda news: channel.send((None, news, ""))] if telling else []
    try:
        while (given := channel.recv()) is not None:
            number, item = given
            try:
                channel.send((number, work(item, server, *more), ""))
            except Exception:
                import traceback

                channel.send((number, None, traceback.format_exc()))
            server.rest()
    except (EOFError, OSError):
        pass
    server.close()
