"""What to practise now: spaced repetition over what is remembered. The cards are replayed, never stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from dojo.content.catalog import Kata
from dojo.practice.database import Attempt

SITTING = 2 * 3600.0  # seconds of pause after which a new sitting begins


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
class Due:
    """A kata to practise, and why; `recall` is how likely it is still known, None for a new one."""

    kata: Kata
    reason: str
    recall: float | None


def sittings(attempts: list[Attempt]) -> list[Sitting]:
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


def propose(katas: dict[str, Kata], history: list[Attempt], now: datetime | None = None) -> list[Due]:
    """Katas to practise, the most urgent first: due ones, then new ones whose groundwork has been passed."""
    from fsrs import Card, Rating, Scheduler

    now = now or datetime.now(UTC)
    scheduler = Scheduler(enable_fuzzing=False)
    due, new, passed = [], [], {a.kata for a in history if a.passed}
    for kata in katas.values():
        seen = sittings([a for a in history if a.kata == kata.name])
        if not seen:
            missing = [name for name in kata.builds_on if name not in passed]
            if not missing:
                base = f"builds on {', '.join(kata.builds_on)}" if kata.builds_on else "needs no other"
                new.append(Due(kata, f"new; {base}", None))
            continue
        card = Card()
        for sitting in seen:
            word = rating(sitting, 60.0 * kata.minutes)
            card, _ = scheduler.review_card(card, Rating[word], datetime.fromtimestamp(sitting.end.at, UTC))
        if card.due <= now:
            recall = scheduler.get_card_retrievability(card, now)
            last = {"Again": "not passed", "Hard": "passed with hints", "Good": "passed after par", "Easy": "passed"}
            ago = (now - datetime.fromtimestamp(seen[-1].end.at, UTC)).days
            when = "today" if ago < 1 else "yesterday" if ago == 1 else f"{ago} days ago"
            known = "" if word == "Again" else f", {recall:.0%} likely still known"
            due.append(Due(kata, f"{last[word]} {when}{known}", recall))
    due.sort(key=lambda each: each.recall or 0.0)
    return due + new


def due_dates(katas: dict[str, Kata], history: list[Attempt]) -> dict[str, datetime]:
    """When each kata that has been tried is due again."""
    from fsrs import Card, Rating, Scheduler

    scheduler, dates = Scheduler(enable_fuzzing=False), {}
    for kata in katas.values():
        card = None
        for sitting in sittings([a for a in history if a.kata == kata.name]):
            word, at = rating(sitting, 60.0 * kata.minutes), datetime.fromtimestamp(sitting.end.at, UTC)
            card, _ = scheduler.review_card(card or Card(), Rating[word], at)
        if card is not None:
            dates[kata.name] = card.due
    return dates
