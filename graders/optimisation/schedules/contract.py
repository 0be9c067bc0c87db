"""What two schedules must give. The oracle goes from the end of a run, and says how far below the maximum it is."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from dojo.contracts import Attempt, Draw, GeneratorContract

DECAYS: dict[str, Callable[[float], float]] = {
    "cosine": lambda x: math.sin(math.pi * x / 2) ** 2,
    "linear": lambda x: x,
    "1-sqrt": lambda x: x**0.5,
}


def at(step: int, high: float, low: float, warmup: int, decay: int, total: int, shape: str = "linear") -> float:
    if step >= total:
        return low
    if step > total - decay:
        return high - (high - low) * DECAYS[shape]((step - total + decay) / decay)
    return high if step >= warmup else high * step / warmup


def cosine(step: int, high: float, low: float, warmup: int, total: int) -> float:
    return at(step, high, low, warmup, total - warmup, total, "cosine")


def each(steps: Iterable[int], *schedule: Any) -> list[tuple]:
    return [(step, *schedule) for step in steps]


def drawn(d: Draw) -> list[tuple]:
    """Ten schedules of any proportions, from the end of their warmup to the end of the run."""
    pick, found = d.random(), []
    for _ in range(10):
        warmup, constant, decay = (pick.randint(1, 9) for _ in range(3))
        high, total = 10 ** pick.uniform(-5, 1), warmup + constant + decay
        low = pick.choice([0.0, pick.uniform(0.0, 1.0) * high])
        found += each(range(warmup, total + 1), high, low, warmup, decay, total)
    return found


class ScheduleContract(GeneratorContract):
    relative = 1e-6

    def agrees(self, attempt: Attempt, claim: str, call: tuple, got: Any = None, by_name: int = 0) -> None:
        self.absolute = 1e-6 * call[1]  # of the maximum: float32 is accurate enough
        super().agrees(attempt, claim, call, got, by_name)


# Whether the first step counts as 0 or 1, or the warmup starts at min_lr, does not show in millions of steps from 0.
LONG = range(0, 2_000_000, 390_625), 2.0, 0.0, 2_000_000


class TestWarmupCosine(ScheduleContract):
    name = "warmup_cosine"
    oracle = cosine
    claims = {
        "the rate decays along half a cosine": each(range(2, 6), 1.0, 0.1, 2, 6) + each(range(3, 21), 2.0, 0.0, 3, 20),
        "any cosine decays to its minimum": lambda d: [(*call[:4], call[5]) for call in drawn(d)],
        "the warmup rises in a line": each(*LONG, 3_000_000),
    }
    edges = {
        "the warmup starts at 0": each(range(5), 2.0, 0.5, 5, 20),
        "the minimum stays": each(range(6, 20), 1.0, 0.1, 2, 6),
        "a run may have no warmup": each(range(5), 2.0, 0.5, 0, 5),
    }
    refused = {
        "a warmup longer than the run is refused": dict.fromkeys(each((2, 20), 2.0, 0.5, 21, 20), (21, 20)),
    }
    holds = {
        "Decay": ("test_the_rate", "test_any"),
        "Warmup": ("test_the_warmup",),
        "End": ("test_the_minimum",),
        "No steps": ("test_a_run",),
        "Errors": ("test_a_warmup_longer",),
    }


class TestWarmupStableDecay(ScheduleContract):
    name = "warmup_stable_decay"
    oracle = at
    claims = {
        "the rate decays along a root": each(range(14, 21), 2.0, 0.5, 3, 6, 20, "1-sqrt"),
        "the rate decays in a line": each(range(4, 8), 1.0, 0.1, 2, 4, 8),
        "the rate stays at its maximum until the decay": each(range(3, 15), 2.0, 0.5, 3, 6, 20),
        "any stable schedule decays to its minimum": lambda d: [
            (*call, shape) for call in drawn(d) for shape in ("linear", "1-sqrt")
        ],
        "the warmup rises in a line": each(*LONG, 500_000, 3_000_000),
    }
    edges = {
        "the warmup starts at 0": each(range(5), 2.0, 0.5, 5, 8, 20),
        "the minimum stays": each(range(8, 20), 1.0, 0.1, 2, 4, 8),
        "a run may have no warmup, or no decay, or nothing between them": [
            *each(range(9), 2.0, 0.5, 0, 4, 8), *each(range(9), 2.0, 0.5, 3, 0, 8), *each(range(9), 2.0, 0.5, 2, 6, 8),
        ],
    }  # fmt: skip
    refused = {
        "a warmup and a decay longer than the run are refused": dict.fromkeys(
            each((2, 20, 99), 2.0, 0.5, 15, 7, 20), ((15, 22), (7, 22), 20)
        ),
        "an unknown shape is refused": dict.fromkeys(each((0, 17, 99), 2.0, 0.5, 3, 6, 20, "sqrt"), ("sqrt",)),
    }
    holds = TestWarmupCosine.holds | {"Errors": ("test_a_warmup_and", "test_an_unknown")}
