"""What to practise now: spaced repetition over what is remembered. The cards are replayed, never stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dojo.content.catalog import Kata
from dojo.practice.database import Attempt

if TYPE_CHECKING:
    from dojo.practice.progress import Standing

SITTING = 2 * 3600.0  # seconds of pause after which a new sitting begins
RATED = {"Hard": "passed with hints", "Good": "passed after par", "Easy": "passed"}


@dataclass(frozen=True)
class Sitting:
    """Attempts at one kata without a long pause between them."""

    attempts: tuple[Attempt, ...]

    @property
    def end(self) -> Attempt:
        """The first pass, or the last try."""
        return next((a for a in self.attempts if a.passed), self.attempts[-1])

    @property
    def taken(self) -> float:
        """Seconds from the start to the pass: by the clock of a mock, or from the first try."""
        return self.end.spent if self.end.spent is not None else self.end.at - self.attempts[0].at


@dataclass(frozen=True)
class Memory:
    """What the scheduler makes of all gradings of a kata."""

    due: datetime
    recall: float  # how likely it is still known
    rating: str  # of the last sitting
    at: float  # the end of it


@dataclass(frozen=True)
class Due:
    """A kata to practise, and why; `recall` is how likely it is still known, None for a new one."""

    kata: Kata
    reason: str
    recall: float | None


def sittings(attempts: Sequence[Attempt]) -> list[Sitting]:
    """Attempts at one kata, oldest first, in sittings."""
    groups: list[list[Attempt]] = []
    for attempt in attempts:
        new = not groups or attempt.at - groups[-1][-1].at > SITTING or attempt.kind != groups[-1][-1].kind
        groups.append([attempt]) if new else groups[-1].append(attempt)
    return [Sitting(tuple(group)) for group in groups]


def rating(sitting: Sitting, par: float) -> str:
    """How it went, in the scheduler's words; `par` in seconds."""
    if not sitting.end.passed:
        return "Again"
    if sitting.end.hints:
        return "Hard"
    return "Easy" if sitting.taken <= par else "Good"


def memory(kata: Kata, gradings: Sequence[Attempt], now: datetime) -> Memory | None:
    """What is remembered of a kata after these gradings, oldest first; None when there are none."""
    if not gradings:
        return None
    from fsrs import Card, Rating, Scheduler

    scheduler, card = Scheduler(enable_fuzzing=False), Card()
    for sitting in sittings(gradings):
        word, at = rating(sitting, 60.0 * kata.minutes), sitting.end.at
        card, _ = scheduler.review_card(card, Rating[word], datetime.fromtimestamp(at, UTC))
    return Memory(card.due, scheduler.get_card_retrievability(card, now), word, at)


def propose(katas: Mapping[str, Kata], standings: Mapping[str, Standing], now: datetime | None = None) -> list[Due]:
    """Katas to practise, the most urgent first: due ones, then new ones whose groundwork has been passed."""
    now = now or datetime.now(UTC)
    due, new = [], []
    for name, kata in katas.items():
        standing = standings[name]
        known, last = standing.memory, standing.last
        if known is None or last is None:
            if all(standings[base].passed for base in kata.builds_on):
                base = f"builds on {', '.join(kata.builds_on)}" if kata.builds_on else "needs no other"
                new.append(Due(kata, f"new; {base}", None))
        elif not last.passed:
            due.append(Due(kata, f"failed {_ago(last.at, now)}", 0.0))
        elif known.due <= now:
            reason = f"{RATED[known.rating]} {_ago(known.at, now)}, {known.recall:.0%} likely still known"
            due.append(Due(kata, reason, known.recall))
    due.sort(key=lambda each: each.recall or 0.0)
    return due + new


def _ago(at: float, now: datetime) -> str:
    days = (now - datetime.fromtimestamp(at, UTC)).days
    return "today" if days < 1 else "yesterday" if days == 1 else f"{days} days ago"
