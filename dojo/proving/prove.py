"""`prove`: shows that a kata's grader is right, step by step, and says what is wrong as FILE:LINE: what."""

from __future__ import annotations

import ast
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TextIO

import torch

from dojo.content import build, lessons, master, proofs
from dojo.content.catalog import Kata
from dojo.content.rows import BadRow
from dojo.grading import parallel, topics
from dojo.grading.options import Entry, Options
from dojo.grading.run import run
from dojo.grading.steps import faults as faults_of_step
from dojo.judge.fork_server import ForkServer
from dojo.judge.pool import WorkerPool, processors
from dojo.proving import margins, matrix, mutants, price
from dojo.verdict.types import Check, Outcome, Verdict

FEWEST_BUGS, FEWEST_RIGHT = 8, 5
SEEDS = range(20)  # of the inputs that margins are taken over
Tell = Callable[[int, int], None]  # how many are done, and of how many


@dataclass(frozen=True)
class Step:
    """One part of a proof; `find` gives what is wrong."""

    name: str
    what: str
    find: Callable[..., list[str]]  # of kata, server, seed and tell


@dataclass(frozen=True)
class Proven:
    """What a step came to; seconds are of processors, the judge's and all workers'."""

    step: Step
    faults: list[str]
    seconds: float


def prove(kata: Kata, steps: list[Step], seed: int, out: TextIO) -> list[Proven]:
    """Take the steps in turn, and tell the plan, how far each is, and what it found."""
    print(f"proving {kata.name}, {len(steps)} steps:", file=out)
    for step in steps:
        print(f"  {step.name:8} {step.what}", file=out)
    parallel.import_all()
    start = _cost(lambda server: [])[1]  # of a fork server by itself, which every step pays
    found, back = [], "\r" if out.isatty() else ""
    for step in steps:

        def tell(at: int, of: int, name: str = step.name) -> None:
            if out.isatty():
                print(f"{back}  {name:8} {at} of {of}", end="", file=out, flush=True)

        faults, seconds = _cost(partial(step.find, kata, seed=seed, tell=tell))
        found.append(Proven(step, faults, max(0.0, seconds - start)))
        result = f"{len(faults)} fault{'s' * (len(faults) != 1)}" if faults else "holds"
        print(f"{back}  {step.name:8} {result:<12} {found[-1].seconds:6.1f} CPU-s", file=out, flush=True)
    for fault in (fault for each in found for fault in each.faults):
        print(fault, file=out)
    lines = sum(price.lines(kata).values())
    total = sum(len(each.faults) for each in found)
    ended = f"{total} fault{'s' * (total != 1)}" if total else "proven"
    print(f"{kata.name}: {ended} · {lines} lines by hand · {sum(e.seconds for e in found):.1f} CPU-seconds", file=out)
    return found


def faults(kata: Kata, names: list[str], server: ForkServer, seed: int) -> list[str]:
    """What these steps find, on a fork server that is there."""
    steps = [step for step in STEPS if step.name in names]
    return [fault for step in steps for fault in step.find(kata, server, seed, lambda at, of: None)]


def _cost(work: Callable[[ForkServer], list[str]]) -> tuple[list[str], float]:
    """What a piece of work gives, and the processor seconds that it took, those of all its processes included."""
    before, children = time.process_time(), _children()
    server = ForkServer()
    try:
        found = work(server)
    finally:
        server.close()
    return found, time.process_time() - before + _children() - children


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _files(kata: Kata, server: ForkServer, seed: int, tell: Tell) -> list[str]:
    faults = [*master.statement_faults(kata), *master.question_faults(kata), *topics.faults(kata)]
    faults += lessons.faults(kata)
    if not build.is_ours(kata):
        faults.append(f"{kata.say(kata.stub)}: it or its notebook has been worked in: `reset` makes both afresh")
    faults += [f"{kata.say(path)}: not what the master gives: run `build`" for path in build.stale_files(kata)]
    try:
        source = master.read_text(kata.master)
        known = proofs.bugs(kata)
        planted = {row.name: (row.place, row.plant(source)) for row in (*known, *proofs.mutants(kata))}
        planted |= {name: (proofs.place(kata, name), text) for name, text in proofs.mistakes(kata).items()}
        right = proofs.right_attempts(kata) | proofs.right_programs(kata)
    except BadRow as bad:
        return [*faults, str(bad)]
    for name, (place, text) in planted.items():
        try:
            ast.parse(text)
        except SyntaxError as error:  # every check would reject it, and none would be proven
            faults.append(f"{place}: with {name!r} line {error.lineno} is no Python: {error.msg}")
    if len(known) < FEWEST_BUGS:
        wrong = kata.say(kata.proofs / "wrong.txt")
        faults.append(f"{wrong}: {len(known)} known bugs, at least {FEWEST_BUGS} are needed")
    if len(right) < FEWEST_RIGHT:
        faults.append(f"{kata.say(kata.proofs)}: {len(right)} right answers, at least {FEWEST_RIGHT} are needed")
    return faults


def _stub(kata: Kata, server: ForkServer, seed: int, tell: Tell) -> list[str]:
    verdict = _graded(kata, master.stub_text(kata), seed, server)
    return [] if verdict.verdict == "empty" else [f"{kata.say(kata.stub)}: is told as {verdict.verdict}"]


def _lesson(kata: Kata, server: ForkServer, seed: int, tell: Tell) -> list[str]:
    lesson = lessons.of(kata)
    return [fault for step in lesson.steps for fault in faults_of_step(kata, step, server)] if lesson else []


def _right(kata: Kata, server: ForkServer, seed: int, tell: Tell) -> list[str]:
    sources = {kata.say(kata.master): master.read_text(kata.master)}
    sources |= {proofs.right_place(kata, style): source for style, source in proofs.right_attempts(kata).items()}
    return _each(kata, sources, server, tell, lambda source, server: _failed(kata, source, seed, server))


def _field(kata: Kata, server: ForkServer, seed: int, tell: Tell) -> list[str]:
    def judge(source: str, server: ForkServer) -> list[str]:
        core = _failed(kata, source, seed, server, tier="core")
        passes = not _failed(kata, source, seed, server, tier="robust")
        says = source.startswith("# robust: ")
        if passes and says:
            core.append("passes all of robust, and its first line says that it does not")
        elif not passes and not says:
            core.append("fails robust: its first line says why, as in `# robust: no length is checked`")
        return core

    sources = {kata.say(kata.proofs / "field" / f"{style}.py"): text for style, text in proofs.field(kata).items()}
    return _each(kata, sources, server, tell, judge)


def _idiom(kata: Kata, server: ForkServer, seed: int, tell: Tell) -> list[str]:
    from dojo.proving import idiom  # which imports torch's compiler: seconds

    return idiom.faults(kata)


def _wrong(kata: Kata, server: ForkServer, seed: int, tell: Tell) -> list[str]:
    return matrix.faults(kata, server, seed)


def _mutants(kata: Kata, server: ForkServer, seed: int, tell: Tell) -> list[str]:
    left = mutants.tally(kata, server, seed, tell).unexplained
    return [f"{kata.say(kata.master)}:{number}: this mutant passes: {change}" for number, change in left]


def _margins(kata: Kata, server: ForkServer, seed: int, tell: Tell) -> list[str]:
    measured = margins.measure([kata], SEEDS, torch.float32, server)
    return [
        f"{kata.say(kata.grader)}: {name}, case {case}: {who} uses {used:.2f} of the budget of {value} (seed {at}); "
        f"a right answer uses at most {margins.MOST}: is it among the variants?"
        for (_, name, case, *_), worst in measured
        for (who, value), (used, at, _) in worst.items()
        if used > margins.MOST
    ]


STEPS = [
    Step("files", "stub and notebook are what the master gives, questions are whole, every row fits", _files),
    Step("stub", "the stub is told as not started", _stub),
    Step("lesson", "each step's own answer passes, and its mistakes are named", _lesson),
    Step("right", "the solution and every right answer pass", _right),
    Step("field", "what the field writes passes core", _field),
    Step("idiom", "the solution compiles, never waits for a GPU, and is built on meta as FSDP builds", _idiom),
    Step("wrong", "every wrong answer fails a check, every check a wrong answer, known bugs are named", _wrong),
    Step("mutants", "no one-place change of the solution passes without a reason", _mutants),
    Step("margins", f"right answers use at most {margins.MOST} of the error budget", _margins),
]


def main(kata: Kata, only: list[str], seed: int) -> int:
    """Prove one kata on the terminal; returns 1 where something is wrong."""
    steps = [step for step in STEPS if not only or step.name in only]
    return 1 if any(each.faults for each in prove(kata, steps, seed, sys.stdout)) else 0


def _each(
    kata: Kata, sources: dict[str, str], server: ForkServer, tell: Tell, judge: Callable[[str, ForkServer], list[str]]
) -> list[str]:
    """What is wrong with each of these sources, told with its place."""
    if not sources:
        return []
    done = count(1)
    with WorkerPool(judge, parallel.warmed([kata], server), min(processors(), len(sources))) as pool:
        found = pool.map(list(sources.values()), lambda _: tell(next(done), len(sources)))
    return [f"{place}: {fault}" for place, each in zip(sources, found, strict=True) for fault in each]


def _failed(kata: Kata, source: str, seed: int, server: ForkServer, tier: str | None = None) -> list[str]:
    """The checks that a source fails, with what they say, a line each."""
    verdict = _graded(kata, source, seed, server, tier)
    if verdict.verdict == "passed":
        return []
    return [*map(_line, (c for c in verdict.checks if not c.outcome.harmless))] or [verdict.message]


def _line(check: Check) -> str:
    first = check.message.partition("\n")[0]
    return f"{check.name} {'breaks' if check.outcome is Outcome.GRADER_ERROR else 'fails'}: {first}"


def _graded(kata: Kata, source: str, seed: int, server: ForkServer, tier: str | None = None) -> Verdict:
    options = Options(seed, tier=tier, diagnose=False)
    return run([Entry(kata, source, "attempt.py", "")], options, server)[0]
