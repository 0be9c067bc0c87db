"""`quiz`: the questions of interviewers that are due, a few minutes a day."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from functools import partial

from dojo.content import catalog
from dojo.content.catalog import Trouble, typed
from dojo.practice import database, progress
from dojo.practice.interview import questions
from dojo.practice.schedule import repetition
from dojo.practice.schedule.repetition import QuestionCard
from dojo.verdict.screen.text import filled


def main(args: argparse.Namespace) -> int:
    """Ask what is due; returns 1 if nobody can be asked."""
    from dojo.verdict.screen.terminal import Screen

    katas = catalog.select(args.names)
    cards = repetition.question_cards(katas, database.answers())
    if not cards:
        raise Trouble(f"no question is written yet for {', '.join(kata.name for kata in katas)}")
    asked = cards if args.all else to_ask(cards, {kata.name for kata in katas} if args.names else solved())
    if not asked:
        print(filled(_nothing(cards), sys.stdout))
        return 0
    if not sys.stdin.isatty():
        print(f"{questions.NO_TERMINAL}. Waiting: {len(asked)}.")
        return 1
    given: list[database.Answer] = []

    def keep(_: QuestionCard, answer: database.Answer | None) -> None:
        if answer:
            given.append(answer)
            if not args.no_record:
                database.note(answers=[answer])

    screen = Screen(sys.stdout)
    pose = partial(questions.at_terminal, screen=screen)
    questions.ask(asked, keep, pose, 60.0 * args.minutes)
    print(_summed_up(given))
    return 0


def to_ask(cards: list[QuestionCard], begun: set[str]) -> list[QuestionCard]:
    """What is due, the longest first, and then what was never asked of the katas that are begun, easier first."""
    due = repetition.questions_due(cards, datetime.now(UTC))
    return [*due, *(card for card in cards if card.due is None and card.kata.name in begun)]


def solved() -> set[str]:
    """The katas that were ever right: of others nothing new is asked unless they are named."""
    return {name for name, each in progress.standings(catalog.katas().values()).items() if each.solved}


def _nothing(cards: list[QuestionCard]) -> str:
    """Why nothing is asked, and when something will be."""
    upcoming = min((card for card in cards if card.due), key=lambda card: card.due or 0, default=None)
    if upcoming is None or upcoming.due is None:
        return f"no question is due: `{typed('quiz softmax')}` asks those of a kata that you have not solved yet."
    when = f"{upcoming.due.astimezone():%d %B at %H:%M}"
    return f"no question is due; one of {upcoming.kata.name} comes next, on {when}. `--all` asks now."


def _summed_up(given: list[database.Answer]) -> str:
    """How many were answered, and how they were rated."""
    counts = {word: sum(answer.rating == word for answer in given) for word in database.RATINGS}
    rated = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{len(given)} answered: {rated}." if given else "nothing was answered."
