"""Which of two calls is slower: a sequential sign test on interleaved pairs, with three answers.

Each pair runs both calls in random order on changed inputs and asks one question: did the attempt take more than
`limit` times as long as the reference? Wald's test (p0 = 0.3 against p1 = 0.7) calls an attempt slow wrongly once in
a million times, after 17 pairs that agree, and fast wrongly once in a hundred, after 6; these are the odds at the
borders, where only seven pairs of ten say the right thing. A pair within half of the limit counts as two. What it
cannot decide is *undecided*, and never a failure.
A call of a tenth of a second is no matter of chance: where the reference takes that long, one pair far within the limit
decides; where either of them does, three far beyond it, and of a whole second one, or three that are beyond it at all.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from dojo.contracts.checks.assertions import too_much
from dojo.judge.proxy import Attempt
from dojo.verdict.failures import Fault
from dojo.verdict.types import Failure, Kind, Outcome

P0, P1, MOST_PAIRS = 0.3, 0.7, 120
FALSE_ALARM, MISS = 1e-6, 1e-2
LONG = 0.1  # processor seconds of a call from which on a single pair says much
WHOLE = 1.0  # from which on it says all
BEYOND = 1.25  # times the limit: no chance makes a second of processor time that much longer, three times
CLEAR, CLEARLY_SLOW = 2.0, 3  # how far from the limit it then decides, and how many must say that it is slow
SLEEP_ALLOWANCE = 0.05  # seconds by the wall clock that a busy machine may take on top of four times the limit
Reading = tuple[float, float]  # seconds of work, on the CPU of a processor; wall seconds


@dataclass(frozen=True)
class Race:
    """How it ended: `slower` is True, False or None for undecided; `ratio` is the median over the pairs.

    Of the pairs so many came out `over` the limit.
    """

    slower: bool | None
    ratio: float
    pairs: int
    over: int


def race(attempt: Callable[[], Reading], reference: Callable[[], Reading], limit: float, rng: random.Random) -> Race:
    """Run pairs until the sign test decides whether `attempt` takes more than `limit` times what `reference` does."""
    step_up, step_down = math.log(P1 / P0), math.log((1 - P1) / (1 - P0))
    slow, fast = math.log((1 - MISS) / FALSE_ALARM), math.log(MISS / (1 - FALSE_ALARM))
    score = 0.0
    ratios: list[float] = []
    overs = 0
    while len(ratios) < MOST_PAIRS:
        order = [attempt, reference]
        rng.shuffle(order)
        reading = {run: run() for run in order}
        (cpu, wall), (cpu_reference, wall_reference) = reading[attempt], reading[reference]
        ratios.append(cpu / max(cpu_reference, 1e-9))
        over = cpu > limit * cpu_reference or wall > 4 * limit * wall_reference + SLEEP_ALLOWANCE
        clear = CLEAR * cpu < limit * cpu_reference and wall < limit * wall_reference
        overs += over
        score += step_up if over else step_down * (1 + clear)
        if max(cpu, cpu_reference) > LONG:
            within = cpu_reference > LONG and clear
            beyond = sum(ratio > CLEAR * limit for ratio in ratios) >= (1 if cpu > WHOLE else CLEARLY_SLOW)
            beyond = beyond or (cpu > WHOLE and sum(ratio > BEYOND * limit for ratio in ratios) >= CLEARLY_SLOW)
            if within or beyond:
                return Race(beyond, median(ratios), len(ratios), overs)
        if not fast < score < slow:
            return Race(score > 0, median(ratios), len(ratios), overs)
    return Race(None, median(ratios), len(ratios), overs)


def clocked(attempt: Attempt, ask: Callable[[], Any]) -> Reading:
    """Processor and wall seconds of the worker while `ask` asks it, read from outside; on a GPU the wall's alone."""
    worker = attempt.worker()
    cpu, wall = worker.cpu_seconds(), time.perf_counter()
    ask()
    cpu, wall = worker.cpu_seconds() - cpu, time.perf_counter() - wall
    return (wall if attempt.device == "cuda" else cpu), wall


def assert_time_within(limit: float, result: Race) -> None:
    """A race says that at most `limit` times the reference's time is taken; one that is undecided fails nothing."""
    measured = f"median of {result.pairs} pairs" if result.pairs > 1 else "one pair"
    measurement = f"{result.ratio:.1f} × the reference's time ({measured}), limit {limit} ×"
    if result.slower is None:
        raise Fault(Outcome.UNDECIDED, Failure(Kind.UNJUDGED, what=f"too close to call: {measurement}"))
    if result.slower:
        too_much(f"takes at most {limit} × the time of the reference", measurement)
