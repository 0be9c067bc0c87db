"""What two schedules must give. The oracle is exact: rationals, and a cosine and a root to forty digits."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

from dojo.contracts import Attempt, Draw, GeneratorContract

PI = Decimal("3.14159265358979323846264338327950288419716939937510582")
DIGITS = 40


def cosine_of_turn(x: Fraction) -> Fraction:
    """cos(πx) by its series, x in [0, 1]."""
    with localcontext() as context:
        context.prec = DIGITS + 10
        angle = PI * x.numerator / x.denominator
        term = total = Decimal(1)
        for n in range(1, 60):
            term = -term * angle * angle / ((2 * n - 1) * (2 * n))
            total += term
        return Fraction(total)


def root(x: Fraction) -> Fraction:
    with localcontext() as context:
        context.prec = DIGITS
        return Fraction((Decimal(x.numerator) / x.denominator).sqrt())


FALLS: dict[str, Callable[[Fraction], Fraction]] = {
    "cosine": lambda x: (1 - cosine_of_turn(x)) / 2,
    "linear": lambda x: x,
    "1-sqrt": root,
}


def at(step: int, high: float, low: float, warmup: int, decay: int, total: int, shape: str) -> float:
    """Phase by phase from the end, how far below the top the rate is."""
    top, bottom = Fraction(high), Fraction(low)
    if total <= step:
        return float(bottom)
    if total - decay < step:
        return float(top - (top - bottom) * FALLS[shape](Fraction(step - total + decay, decay)))
    return float(top) if step >= warmup else float(top * Fraction(step, warmup))


def over(steps: Any, one: Callable[[int], float]) -> Any:
    """One rate, or those of several steps."""
    return one(steps) if isinstance(steps, int) else [one(step) for step in steps]


def cosine(steps: Any, high: float, low: float, warmup: int, total: int) -> Any:
    return over(steps, lambda step: at(step, high, low, warmup, total - warmup, total, "cosine"))


def stable(steps: Any, high: float, low: float, warmup: int, decay: int, total: int, shape: str = "linear") -> Any:
    return over(steps, lambda step: at(step, high, low, warmup, decay, total, shape))


class ScheduleContract(GeneratorContract):
    """The first entry of a call is a step, or a range of them: then the answers are a list."""

    relative = 1e-6

    def agrees(self, attempt: Attempt, claim: str, call: tuple, got: Any = None, by_name: int = 0) -> None:
        self.absolute = 1e-6 * call[1]  # of the maximum: float32 is accurate enough
        super().agrees(attempt, claim, call, got, by_name)

    def answer(self, attempt: Attempt, args: tuple, kwargs: dict) -> Any:
        callee = getattr(attempt, self.name)
        if not args or isinstance(args[0], int):
            return callee.request(args, kwargs)["value"]
        calls = [{"do": "call", "target": callee.target, "args": (s, *args[1:]), "kwargs": kwargs} for s in args[0]]
        return [answer["value"] for answer in attempt.ask_each([(callee, call) for call in calls])]

    def words(self, args: tuple, kwargs: dict) -> str:
        if not args or isinstance(args[0], int):
            return super().words(args, kwargs)
        return f"[{super().words(('STEP', *args[1:]), kwargs)} for step in {args[0]}]".replace("'STEP'", "step")


def drawn(d: Draw) -> list[tuple]:
    """Ten schedules of any proportions: rates, warmup, decay and total."""
    pick, found = d.random(), []
    for _ in range(10):
        total = pick.randint(2, 40)
        warmup = pick.randint(0, total)
        high = 10 ** pick.uniform(-5, 1)
        low = pick.choice([0.0, pick.uniform(0.0, 1.0) * high])
        found.append((range(total + 3), high, low, warmup, pick.randint(0, total - warmup), total))
    return found


class TestWarmupCosine(ScheduleContract):
    name = "warmup_cosine"
    oracle = cosine
    base = (7, 2.0, 0.5, 3, 20)
    claims = {
        "the warmup climbs in a line from 0": [(range(5), 2.0, 0.5, 5, 20), (range(0, 500, 99), 3e-4, 3e-5, 500, 9000)],
        "behind the warmup the rate falls along half a cosine": [
            (range(2, 6), 1.0, 0.1, 2, 6),
            (range(3, 20), 2.0, 0.5, 3, 20),
            (range(3, 20), 2.0, 0.0, 3, 20),
            (range(500, 9000, 777), 3e-4, 3e-5, 500, 9000),
        ],
        "min_lr from the end on": [(range(6, 20), 1.0, 0.1, 2, 6), (range(9000, 27000, 3100), 3e-4, 3e-5, 500, 9000)],
    }
    edges = {
        "the end wins where the warmup meets it": [(range(4, 6), 2.0, 0.5, 4, 4), (range(2), 2.0, 0.5, 0, 0)],
        "without a warmup nothing is divided by 0": [(range(5), 2.0, 0.5, 0, 5), (range(1), 1.0, 1.0, 0, 1)],
        "rates may be whole numbers": [(range(9), 2, 0, 2, 8)],
        "any schedule of the cosine": lambda d: [(*each[:4], each[5]) for each in drawn(d)],
    }
    refused = {
        "a negative step is refused": {(-1, 2.0, 0.5, 3, 20): (-1,), (-7, 2.0, 0.5, 0, 20): (-7,)},
        "a minimum above the maximum is refused": {
            (0, 0.25, 0.5, 3, 20): (0.25, 0.5),
            (30, 0.25, 0.5, 3, 20): (0.25, 0.5),
        },
        "a warmup longer than the run is refused": {(2, 2.0, 0.5, 21, 20): (21, 20), (50, 2.0, 0.5, 31, 20): (31, 20)},
    }


class TestWarmupStableDecay(ScheduleContract):
    name = "warmup_stable_decay"
    oracle = stable
    base = (17, 2.0, 0.5, 3, 6, 20, "1-sqrt")
    claims = {
        "the warmup climbs in a line from 0": [
            (range(5), 2.0, 0.5, 5, 8, 20),
            (range(0, 500, 99), 3e-4, 3e-5, 500, 900, 9000),
        ],
        "the rate stays at its maximum until the decay": [
            (range(3, 15), 2.0, 0.5, 3, 6, 20),
            (range(3, 15), 2.0, 0.5, 3, 6, 20, "1-sqrt"),
        ],
        "the rate falls in a line": [
            (range(4, 8), 1.0, 0.1, 2, 4, 8),
            (range(14, 20), 2.0, 0.5, 3, 6, 20, "linear"),
            (range(14, 20), 2.0, 0.0, 3, 6, 20),
            (range(8100, 9000, 77), 3e-4, 3e-5, 500, 900, 9000),
        ],
        "the rate falls along a root": [
            (range(14, 20), 2.0, 0.5, 3, 6, 20, "1-sqrt"),
            (range(8100, 9000, 77), 3e-4, 3e-5, 500, 900, 9000, "1-sqrt"),
        ],
        "min_lr from the end on": [(range(8, 20), 1.0, 0.1, 2, 4, 8), (range(20, 40), 2.0, 0.5, 3, 6, 20, "1-sqrt")],
    }
    edges = {
        "the end wins where the warmup meets it": [
            (range(4, 6), 2.0, 0.5, 4, 0, 4),
            (range(2), 2.0, 0.5, 0, 0, 0, "1-sqrt"),
        ],
        "without a warmup or a decay nothing is divided by 0": [
            (range(9), 2.0, 0.5, 0, 4, 8),
            (range(9), 2.0, 0.5, 3, 0, 8),
            (range(9), 2.0, 0.5, 0, 0, 8, "1-sqrt"),
            (range(9), 2.0, 0.5, 2, 6, 8),
        ],
        "rates may be equal, and whole numbers": [(range(9), 1.0, 1.0, 2, 4, 8), (range(9), 2, 0, 2, 4, 8)],
        "any schedule with a stable phase": lambda d: [
            (*each, shape) for each in drawn(d) for shape in ("linear", "1-sqrt")
        ],
    }
    refused = {
        "a negative step is refused": {(-1, 2.0, 0.5, 3, 6, 20): (-1,)},
        "a minimum above the maximum is refused": {(0, 0.25, 0.5, 3, 6, 20): (0.25, 0.5)},
        "a warmup and a decay longer than the run are refused": {
            (2, 2.0, 0.5, 15, 7, 20): ((15, 22), (7, 22), 20),
            (2, 2.0, 0.5, 21, 0, 20): (21, 20),
            (50, 2.0, 0.5, 0, 33, 20): (33, 20),
        },
        "an unknown shape is refused": {
            (17, 2.0, 0.5, 3, 6, 20, "cosine"): ("cosine",),
            (0, 2.0, 0.5, 3, 6, 20, "sqrt"): ("sqrt",),
            (17, 2.0, 0.5, 3, 6, 20, "Linear"): ("Linear",),
            (99, 2.0, 0.5, 3, 6, 20, "exponential"): ("exponential",),
        },
    }
