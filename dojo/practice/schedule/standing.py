"""How a kata stands for its user: a state, and what it follows from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from dojo.practice.database import Attempt
from dojo.practice.schedule.repetition import Memory
from dojo.verdict.types import PASSED, RIGHT

HELPED = "with help"


class State(StrEnum):
    """How far a user is with a kata; the last four follow the word of what was reached, right or passed."""

    NOT_STARTED = "not started"
    STARTED = "started"
    SOLVED = ""
    EDITED = "edited since"
    DUE = "due again"
    WRONG_SINCE = "wrong since"


def best(gradings: Sequence[Attempt]) -> list[Attempt]:
    """Those that passed, or where none did those that were right."""
    return [a for a in gradings if a.passed] or [a for a in gradings if a.solved]


@dataclass(frozen=True)
class Standing:
    """One kata's state and what it follows from; attempts are in order, the oldest first."""

    state: State
    gradings: tuple[Attempt, ...]  # those that count: own files, notebooks, mocks and drills
    hunts: tuple[Attempt, ...]  # and reviews: these never count, for their solution was handed over
    memory: Memory | None  # what the scheduler makes of the gradings

    @property
    def last(self) -> Attempt | None:
        """The last grading."""
        return self.gradings[-1] if self.gradings else None

    @property
    def tiers(self) -> tuple[str, ...]:
        """The tiers that the last grading passed."""
        return tuple(tier for tier, word in self.last.tiers.items() if word == "passed") if self.last else ()

    @property
    def passed(self) -> bool:
        """Whether the kata was ever passed."""
        return any(attempt.passed for attempt in self.gradings)

    @property
    def solved(self) -> bool:
        """Whether the kata was ever right."""
        return any(attempt.solved for attempt in self.gradings)

    @property
    def helped(self) -> bool:
        """Whether the kata was passed, or else right, but never without help."""
        return self.solved and all(any(attempt.aid) for attempt in best(self.gradings))

    @property
    def polished(self) -> bool:
        """Whether it has passed without help, and nothing is to be done."""
        return self.passed and not self.helped and self.state is State.SOLVED

    @property
    def label(self) -> str:
        """The state in the words that are shown: what was only ever solved with help says so."""
        if not self.solved:
            return self.state
        reached = PASSED if self.passed else RIGHT
        if self.state is State.SOLVED:
            return f"{reached} {HELPED}" if self.helped else reached
        return f"{HELPED if self.helped else reached}, {self.state}"

    @property
    def due(self) -> datetime | None:
        """When it is to be practised again: at once after a failure; None as long as it has not been tried."""
        if self.last is None or self.memory is None:
            return None
        return self.memory.due if self.last.solved else datetime.fromtimestamp(self.last.at, UTC)
