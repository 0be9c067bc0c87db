"""How a kata stands for its user: a state, and what it follows from."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from dojo.practice.database import Attempt
from dojo.practice.schedule.repetition import Memory
from dojo.verdict.types import CORE_ALONE

HELPED = "with help"


class State(StrEnum):
    """How far a user is with a kata, in the words that are shown."""

    NOT_STARTED = "not started"
    STARTED = "started"
    CORE = CORE_ALONE
    PASSED = "passed"
    EDITED = "passed, edited since"
    DUE = "passed, due again"
    FAILED_SINCE = "passed, failed since"


@dataclass(frozen=True)
class Standing:
    """One kata's state and what it follows from; attempts are in order, the oldest first."""

    state: State
    gradings: tuple[Attempt, ...]  # those that count: own files, notebooks and mocks
    hunts: tuple[Attempt, ...]  # these never count, for their solution was handed over
    edited: bool  # whether the own file, or its notebook, answers otherwise than what passed, or was graded, last
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
    def helped(self) -> bool:
        """Whether the kata was passed, but never without help."""
        return self.passed and all(any(attempt.aid) for attempt in self.gradings if attempt.passed)

    @property
    def told(self) -> str:
        """The state in the words that are shown: what was only ever passed with help says so."""
        if not self.helped:
            return self.state
        return f"passed {HELPED}" if self.state is State.PASSED else self.state.replace("passed", HELPED)

    @property
    def due(self) -> datetime | None:
        """When it is to be practised again: at once after a failure; None as long as it has not been tried."""
        if self.last is None or self.memory is None:
            return None
        return self.memory.due if self.last.passed else datetime.fromtimestamp(self.last.at, UTC)
