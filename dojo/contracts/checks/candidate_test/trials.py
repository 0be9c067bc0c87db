"""What a test answers about programs: each is tried in a worker of its own, once for each of three seeds."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from dojo.contracts.checks.candidate_test import corpus
from dojo.judge import worker_handle
from dojo.judge.fork_server import ForkServer
from dojo.judge.proxy import Attempt
from dojo.verdict.failures import Died, Forbidden, Raised
from dojo.verdict.types import Failure, Kind, Outcome

SEEDS = 3
ACCEPTS, REJECTS, NONE = "accepts", "rejects", "none"
PATIENCE = 2  # a test may take so many times the processor time that is asked for before it is ended


@dataclass(frozen=True)
class Answer:
    """What a test said of one program under one seed, and why."""

    word: str  # ACCEPTS, REJECTS or NONE
    text: str = ""  # of the exception, with its kind
    kind: str = ""
    lines: str = ""  # the test's own, down to the one that raised
    line: int = 0  # its number
    seconds: float = 0.0
    timed_out: bool = False

    def against(self, sentence: str, of: str) -> Failure:
        """The answer as one that this sentence of the contract rules out."""
        verb = {ACCEPTS: f"it accepts {of}", REJECTS: f"it rejects {of}", NONE: f"it gives no answer about {of}"}
        seen = verb[self.word] + (f": {self.text}" if self.text else "")
        return Failure(Kind.PROMISE, sentence, (seen,), lines=self.lines, line=self.line)


@dataclass
class Trials:
    """The test of an attempt, tried on programs; the same is never tried twice."""

    attempt: Attempt
    test: str
    names: list[str]  # what a program defines
    reference: str
    seed: int
    sharpness: tuple[str, list[str]] | None = None  # how many mutants it rejects, and the names of those it accepts
    _known: dict[tuple[str, int, Sequence[str]], Answer] = field(default_factory=dict)

    @property
    def seeds(self) -> list[int]:
        """The seeds of this grading."""
        return random.Random(self.seed).sample(range(1 << 31), SEEDS)

    @property
    def first(self) -> Answer:
        """What the test says of the reference: without an answer there, no other is worth waiting for."""
        return self.answer(self.reference, self.seeds[0])

    def answers(self, source: str, relaxed: Sequence[str] = ()) -> list[Answer]:
        """What the test says of a program under each seed, the last of them first if it gives no answer."""
        found = []
        for seed in self.seeds:
            found.append(self.answer(source, seed, relaxed))
            if found[-1].word == NONE:
                break
        return found[::-1]

    def answer(self, source: str, seed: int, relaxed: Sequence[str] = ()) -> Answer:
        """What the test says of a program under a seed, `relaxed` as `judge.worker.trial` describes it."""
        program = corpus.program(source, self.test)  # with the test beside it the solution is still the solution
        key = program, seed, tuple(relaxed)
        if key not in self._known:
            self._known[key] = self._try(program, seed, relaxed)
        return self._known[key]

    def _try(self, program: str, seed: int, relaxed: Sequence[str]) -> Answer:
        mine = self.attempt
        server = mine.server.warm() if isinstance(mine.server, ForkServer) else mine.server
        worker = worker_handle.Worker(server, mine.filename, mine.readable, mine.memory, trial=True)
        given = {"do": "implement", "source": program, "names": self.names, "relaxed": list(relaxed)}
        given["origin"] = corpus.program(self.reference, self.test) if "values" in relaxed else ""
        most = worker_handle.CPU_LIMIT * worker_handle.LOAD_FACTOR
        try:
            list(worker.ask(given, mine.contents(), limit=most))
            before = worker.cpu_seconds()
            request = {"do": "run_test", "test": self.test, "seed": seed}
            reply = next(worker.ask(request, limit=worker_handle.CPU_LIMIT * PATIENCE))
            because, seconds = reply["because"], worker.cpu_seconds() - before
        except Raised as raised:
            why = raised.failure
            return Answer(NONE, _error_text(raised.kind, raised.text), raised.kind, why.lines, why.line)
        except (Died, Forbidden) as fault:
            why, late = fault.failure, fault.outcome is Outcome.TIMED_OUT
            return Answer(NONE, why.what, "", why.lines, why.line, timed_out=late)
        finally:
            worker.end()
        kind = str(because.get("kind", ""))
        text = _error_text(kind, str(because.get("text", "")))
        line = because.get("line")
        lines = str(because.get("lines", "")), line if isinstance(line, int) else 0
        return Answer(reply["answer"], text, kind, *lines, seconds)


def _error_text(kind: str, text: str) -> str:
    return f"{kind}: {text}" if kind and text else kind or text
