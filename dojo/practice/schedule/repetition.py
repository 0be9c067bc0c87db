"""Spaced repetition over what is remembered: how well a kata, or a question, is known, and when it is due again.

The cards are replayed, never stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dojo.content import master
from dojo.content.catalog import Kata
from dojo.content.master import Question
from dojo.practice.database import Answer, Attempt

if TYPE_CHECKING:
    from fsrs import Card, Scheduler

SITTING = 2 * 3600.0  # seconds of pause after which a new sitting begins


@dataclass(frozen=True)
class Sitting:
    """Attempts at one kata without a long pause between them."""

    attempts: tuple[Attempt, ...]

    @property
    def end(self) -> Attempt:
        """The first that was right, or the last try."""
        return next((a for a in self.attempts if a.solved), self.attempts[-1])

    @property
    def taken(self) -> float:
        """Seconds from the start to what is right: by the clock of a mock, or from the first try."""
        return self.end.spent if self.end.spent is not None else self.end.at - self.attempts[0].at


@dataclass(frozen=True)
class Memory:
    """What the scheduler makes of all gradings of a kata."""

    due: datetime
    recall: float  # how likely it is still known
    rating: str  # of the last sitting
    at: float  # the end of it


def sittings(attempts: Sequence[Attempt]) -> list[Sitting]:
    """Attempts at one kata, oldest first, in sittings."""
    groups: list[list[Attempt]] = []
    for attempt in attempts:
        new = not groups or attempt.at - groups[-1][-1].at > SITTING or attempt.kind != groups[-1][-1].kind
        groups.append([attempt]) if new else groups[-1].append(attempt)
    return [Sitting(tuple(group)) for group in groups]


def minutes_to_solve(attempts: Sequence[Attempt]) -> float | None:
    """Minutes of the last sitting at one kata; None if nothing was right in it, or it was too short to be one."""
    last = sittings(attempts)[-1:]
    return next((sitting.taken / 60 for sitting in last if sitting.end.solved and sitting.taken >= 30), None)


def rating(sitting: Sitting, par: float) -> str:
    """How it went, in the scheduler's words; `par` in seconds."""
    if not sitting.end.solved or sitting.end.shown:
        return "Again"
    if sitting.end.hints:
        return "Hard"
    return "Easy" if sitting.taken <= par else "Good"


def memory(kata: Kata, gradings: Sequence[Attempt], now: datetime) -> Memory | None:
    """What is remembered of a kata after these gradings, oldest first; None when there are none."""
    if not gradings:
        return None
    scheduler, card = replayed(kata, gradings)
    last = sittings(gradings)[-1]
    recall = scheduler.get_card_retrievability(card, now)
    return Memory(card.due, recall, rating(last, 60.0 * kata.minutes), last.end.at)


def replayed(kata: Kata, gradings: Sequence[Attempt]) -> tuple[Scheduler, Card]:
    """The scheduler's card of a kata after these gradings."""
    from fsrs import Card, Rating, Scheduler

    scheduler, card = Scheduler(enable_fuzzing=False), Card()
    for sitting in sittings(gradings):
        word, at = rating(sitting, 60.0 * kata.minutes), sitting.end.at
        card, _ = scheduler.review_card(card, Rating[word], datetime.fromtimestamp(at, UTC))
    return scheduler, card


@dataclass(frozen=True)
class QuestionCard:
    """A question of a kata, and when it is due again; None as long as it has not been answered."""

    kata: Kata
    question: Question
    due: datetime | None


def question_cards(katas: Iterable[Kata], answers: Iterable[Answer]) -> list[QuestionCard]:
    """The questions of these katas, in the order of their masters, as they stand after these answers, oldest first."""
    of: dict[tuple[str, str], list[Answer]] = {}
    for answer in answers:
        of.setdefault((answer.kata, answer.question), []).append(answer)
    return [QuestionCard(k, q, _question_due(of.get((k.name, q.text), []))) for k in katas for q in master.questions(k)]


def _question_due(answers: Sequence[Answer]) -> datetime | None:
    """When a question is to be asked again, tomorrow at the earliest: a few minutes a day are for all of them."""
    if not answers:
        return None
    from fsrs import Card, Rating, Scheduler

    scheduler, card = Scheduler(enable_fuzzing=False, learning_steps=(), relearning_steps=()), Card()
    for answer in answers:
        at = datetime.fromtimestamp(answer.at, UTC)
        card, _ = scheduler.review_card(card, Rating[answer.rating.capitalize()], at)
    return card.due


def questions_due(cards: Iterable[QuestionCard], now: datetime) -> list[QuestionCard]:
    """What is due of these, the longest first."""
    return sorted((card for card in cards if card.due and card.due <= now), key=lambda card: card.due or now)
