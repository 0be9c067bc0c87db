"""Grades a cohort in this machine's processes: one a processor, each with a judge that stays warm.

An engine is a loop around `slots`: each takes one attempt and gives a result, or is lost. What was lost is graded
again in a new one after a pause, and at the third time put off to another run: a lost process says nothing of an
attempt. What the clock has ended while the processor did little is graded again when all else is done, alone.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing.connection import wait
from pathlib import PurePath
from typing import Any, Protocol

from dojo.cohort import copies
from dojo.cohort.records import Result, Submitted, fails_core
from dojo.cohort.store import Terms
from dojo.content import catalog
from dojo.content.catalog import typed
from dojo.grading.options import Entry, Options
from dojo.judge.fork_server import ForkServer, FreshStarts
from dojo.judge.pool import PoolProcess, cores, processors
from dojo.verdict.types import Outcome, Verdict

GRADINGS = 3  # of an attempt whose verdict is in doubt, or whose slot is lost
PAUSE = 2.0  # seconds before the second of these where a slot was lost; twice that before the third
OVERDUE = "no verdict within"
STARVED = "no answer by the clock, and little processor time: the machine was too busy"
WORKERS = 2  # of a grading: the attempt's and the reference's
TURN = 0.2  # seconds after which clocks are looked at
_last: list[str] = []  # the kata that this process graded last
_katas = cache(catalog.katas)


@dataclass(frozen=True)
class Job:
    """An attempt on its way to a slot."""

    submitted: Submitted
    terms: Terms
    losses: tuple[str, ...] = ()  # why earlier slots gave no result
    alone: bool = False  # nothing else is graded meanwhile


class Slot(Protocol):
    """What grades one attempt at a time, and may be lost at any time."""

    def begin(self, job: Job) -> None:
        """Set to work."""

    def end(self) -> None:
        """Stop at once, whatever is going on in it."""


class Engine(Protocol):
    """Slots, and how to wait for them."""

    idle: list[Slot]  # those that have nothing to do, from one run to the next

    def ready(self) -> list[Slot]:
        """Those that have come up since it was last asked, in place of lost ones too."""

    def done(self, busy: Sequence[Slot], seconds: float) -> list[tuple[Slot, Result | str]]:
        """What came within so many seconds: results, or for a slot that is lost, why."""

    def close(self) -> None:
        """End everything."""


def grade(job: Job, server: ForkServer | FreshStarts) -> Result:
    """Grade an attempt; in doubt again, up to three times."""
    from dojo.contracts.checks.tolerance import forget
    from dojo.grading.run import run

    kata = _katas()[job.submitted.kata]
    if _last != [kata.name]:
        forget()  # memory must not grow with the katas
        _last[:] = [kata.name]
    name = PurePath(job.submitted.path.rpartition(": ")[2]).name
    repeat = typed(f"grade {kata.name} --attempt {name}")
    entry = Entry(kata, job.submitted.source, name, repeat, others=job.submitted.others)
    for gradings in range(1, GRADINGS + 1):
        started = time.perf_counter()
        (verdict,) = run([entry], Options(job.terms.seed, device=job.terms.device), server)
        seconds, doubt = round(time.perf_counter() - started, 3), doubtful(verdict)
        if doubt == STARVED and job.alone and _calm():
            doubt = ""  # it had the machine for itself: it waits, or hangs
        result = Result(job.submitted, verdict.to_json(pictures=True), doubt, gradings, seconds)
        if not doubt or doubt == STARVED:
            break
    return replace(result, prints=copies.prints(job.submitted.source, kata))  # here, where many work side by side


def _calm() -> bool:
    """Whether this machine has a processor to spare."""
    return os.getloadavg()[0] < processors() + 1


def doubtful(verdict: Verdict) -> str:
    """Why a verdict may not be the last word; nothing if it is, as where core has failed, whatever else is in doubt."""
    if fails_core(check.to_json() for check in verdict.checks):
        return ""
    if any(check.starved for check in verdict.checks):
        return STARVED
    faults = [check.name for check in verdict.checks if check.outcome is Outcome.GRADER_ERROR]
    if faults:
        return f"the grader failed in {', '.join(faults)}"
    close = [check.name for check in verdict.checks if check.outcome is Outcome.UNDECIDED]
    if close and verdict.verdict == "passed":
        return f"too close to call: {', '.join(close)}"
    return ""


def left_to_a_person(job: Job, why: str) -> Result:
    """The result of an attempt that no slot could judge."""
    verdict = {
        "kata": job.submitted.kata,
        "attempt": job.submitted.path,
        "verdict": "unjudged",
        "message": why,
        "tiers": {},
        "checks": [],
        "device": job.terms.device,
        "torch": job.terms.torch,
        "seconds": 0.0,
        "seed": job.terms.seed,
    }
    return Result(job.submitted, verdict, why, len(job.losses))


def results(
    wanted: Iterable[tuple[str, str]],
    fetch: Callable[[str, str], Submitted],
    terms: Terms,
    engine: Engine,
    put_off: Callable[[Job], None] = lambda job: None,
) -> Iterator[Result]:
    """Grade what is wanted, as (student, kata), and yield each result as it comes; what is not yet begun is not read.

    No slot has more than one attempt, and no result waits: memory does not grow with the cohort. `put_off` hears of
    what was lost again and again.
    """
    waiting, idle = iter(wanted), engine.idle
    lost, later = list[tuple[float, Job]](), list[Job]()  # when to try again; what is to be graded alone
    busy: dict[int, tuple[Slot, Job, float]] = {}
    spent: dict[str, float] = defaultdict(float)  # seconds by student

    def following() -> Job | None:
        for entry in lost:
            if entry[0] <= time.monotonic():
                lost.remove(entry)
                return entry[1]
        if found := next(waiting, None):
            return Job(fetch(*found), terms)
        return later.pop() if later and not lost and not busy else None

    job = following()
    while job or busy or lost or later:
        idle += engine.ready()
        while job and idle:
            if spent[job.submitted.student] < terms.submission_limit:
                slot = idle.pop()
                slot.begin(job)
                busy[id(slot)] = slot, job, time.monotonic()
            else:
                yield left_to_a_person(job, f"not graded: this submission had its {terms.submission_limit:.0f} seconds")
            job = following()
        for slot, found in _finished(engine, busy):
            _, begun, since = busy.pop(id(slot))
            spent[begun.submitted.student] += time.monotonic() - since
            if isinstance(found, Result):
                idle.append(slot)
                if found.for_a_person == STARVED and not begun.alone:
                    later.append(replace(begun, alone=True))
                else:
                    yield found
                continue
            slot.end()
            begun = replace(begun, losses=(*begun.losses, found))
            if len(begun.losses) < GRADINGS:
                lost.append((time.monotonic() + PAUSE * 2 ** (len(begun.losses) - 1), begun))
            elif found.startswith(OVERDUE):
                reasons = "; ".join(dict.fromkeys(begun.losses))
                yield left_to_a_person(begun, f"no verdict in {GRADINGS} gradings: {reasons}")
            else:
                put_off(begun)
        job = job or following()


def _finished(engine: Engine, busy: dict[int, tuple[Slot, Job, float]]) -> list[tuple[Slot, Result | str]]:
    """What came in one turn, or is overdue."""
    if not busy:
        time.sleep(TURN)  # until a slot has come up
        return []
    finished = engine.done([slot for slot, _, _ in busy.values()], TURN)
    for slot, job, since in busy.values():
        if time.monotonic() - since > job.terms.attempt_limit and all(slot is not other for other, _ in finished):
            finished.append((slot, f"{OVERDUE} {job.terms.attempt_limit:.0f} seconds"))
    return finished


class LocalEngine:
    """The processes of this machine."""

    def __init__(self, server: ForkServer, size: int | None = None) -> None:
        from dojo.grading.parallel import import_all

        import_all()
        self.server, self.size = server, size or processors()
        self.idle: list[Slot] = []
        self._cores = cores()
        self._slots: list[_Process] = []

    def ready(self) -> list[Slot]:
        self._slots = [each for each in self._slots if not each.ended]
        running = len(self._slots)
        while len(self._slots) < self.size:
            taken = [each.core for each in self._slots]
            self._slots.append(_Process(self.server, next((each for each in self._cores if each not in taken), None)))
        return [*self._slots[running:]]

    def done(self, busy: Sequence[Any], seconds: float) -> list[tuple[Slot, Result | str]]:
        ready = wait([slot.process.channel for slot in busy], seconds)
        return [(slot, slot.take()) for slot in busy if slot.process.channel in ready]

    def close(self) -> None:
        for slot in self._slots:
            slot.close()


class _Process:
    """A process of the pool, as a slot."""

    def __init__(self, server: ForkServer, core: int | None) -> None:
        self.parent, self.core, self.ended = server, core, False
        self.process = PoolProcess(_grade, server, core)

    def begin(self, job: Job) -> None:
        with suppress(OSError):  # it is dead already, which the next look at it tells
            self.process.channel.send((0, job))

    def take(self) -> Result | str:
        """What came of the job."""
        try:
            _, result, trace = self.process.channel.recv()
        except (EOFError, OSError):
            return "the process that graded it was ended"
        if trace:
            return f"the judge failed: {trace.strip().splitlines()[-1]}"
        assert isinstance(result, Result)
        return result

    def end(self) -> None:
        self.process.process.kill()
        self.close()

    def close(self) -> None:
        """End when it has nothing to do, or soon."""
        if not self.ended:
            self.ended = True
            self.process.close()
            self.parent.join(self.process.server)


def _grade(job: Job, server: ForkServer) -> Result:
    warm = server.warm()
    warm.spares = WORKERS
    return grade(job, warm)
