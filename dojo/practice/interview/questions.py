"""What an interviewer asks after the code: one question at a time, answered aloud or typed, rated by who answered."""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from dojo.content import catalog, files, master, numbers
from dojo.content.catalog import typed
from dojo.practice import database
from dojo.practice.database import RATINGS, Answer, Unreadable
from dojo.practice.schedule import repetition
from dojo.verdict.screen.text import encodable, filled

if TYPE_CHECKING:
    from dojo.practice.interview.timed_session import TimedSession
    from dojo.practice.schedule.repetition import QuestionCard
    from dojo.verdict.screen.terminal import Screen

COUNT = {1: 3, 2: 3, 3: 4, 4: 5, 5: 5}  # questions after the code, by level
ANSWERS = "answers.md"  # in a mock's folder
SKIPPED, LEFT = "skipped", "left"
WORDS = {str(number): word for number, word in enumerate(RATINGS, 1)} | {word: word for word in RATINGS}
SCALE = ", ".join(f"{number} {word}" for number, word in enumerate(RATINGS, 1))
NO_TERMINAL = "no questions: nobody can be asked, for standard input is no terminal"


def after_the_code(held: TimedSession, screen: Screen, recorded: bool) -> None:
    """Ask about the katas of a mock what has not been asked in it yet; each answer is kept as it comes."""
    katas = [catalog.katas()[name] for name in held.katas]
    try:
        answers = database.answers()
    except Unreadable:
        answers = []  # whoever writes the next answer tells why
    cards = repetition.question_cards(katas, answers)
    for kata in katas:
        mine = [card for card in cards if card.kata is kata]
        held.ratings.setdefault(kata.name, {card.question.text: "" for card in chosen(mine, COUNT[kata.level])})
    waiting = [card for card in cards if held.ratings[card.kata.name].get(card.question.text) == ""]
    if not waiting:
        return
    if not sys.stdin.isatty():
        print(f"{NO_TERMINAL}; `{typed(f'quiz {held.katas[0]}')}` asks them on one.\n", flush=True)
        return

    def keep(card: QuestionCard, answer: Answer | None) -> None:
        held.ratings[card.kata.name][card.question.text] = answer.rating if answer else SKIPPED
        if answer:
            held.answers.setdefault(card.kata.name, {})[card.question.text] = answer.text
        held.save()
        if answer and recorded:
            remember(answer)

    ask(waiting, keep, screen)
    for asked in held.ratings.values():
        asked |= {text: LEFT for text, rating in asked.items() if not rating}
    held.save()


def show_answers(held: TimedSession, screen: Screen) -> None:
    """Show what was typed beside the points of a good answer, and keep all that was answered in the mock's folder."""
    whole, typed_alone = transcript(held), transcript(held, aloud=False)
    if typed_alone:
        screen.markdown(f"## What you answered, and the key points\n\n{typed_alone}")
    if whole:
        path = held.folder / ANSWERS
        files.write_atomic(path, f"# Questions and answers\n\n{whole}\n")
        print(filled(f"\nAnswers and key points are kept in {catalog.katas()[held.katas[0]].say(path)}.\n", sys.stdout))


def transcript(held: TimedSession, aloud: bool = True) -> str:
    """Each question that was answered, the answer, its rating and the points, in Markdown; or what was typed alone."""
    parts = []
    for name, given in held.answers.items():
        kata = catalog.katas()[name]
        for question in master.questions(kata):
            typed = given.get(question.text)
            if typed or (typed is not None and aloud):
                rated, points = held.ratings[name][question.text], "\n".join(f"- {point}" for point in question.points)
                answer = f"> {typed}" if typed else "> (aloud)"
                parts += [f"### {question.text}", f"You, rated {rated}:", answer, "Key points:", points]
                parts += [f"*Source:* {question.source}"]
    return "\n\n".join(parts)


def chosen(cards: Sequence[QuestionCard], count: int) -> list[QuestionCard]:
    """So many of a kata's questions, easier first: by chance, those before others that are due or were never asked."""
    now = datetime.now(UTC)
    later = [card for card in cards if card.due and card.due > now]
    first = [card for card in cards if card not in later]
    mixed = random.sample(first, len(first)) + random.sample(later, len(later))
    return sorted(mixed[:count], key=cards.index)


def ask(
    cards: Sequence[QuestionCard],
    keep: Callable[[QuestionCard, Answer | None], None],
    screen: Screen,
    seconds: float = math.inf,
) -> None:
    """Ask in this order and hand each answer over as it comes, None for a question that was skipped.

    After so many seconds no other question begins. Ctrl-C, or the end of what can be read, leaves the rest.
    """
    started = time.monotonic()
    try:
        for number, card in enumerate(cards, 1):
            if time.monotonic() - started > seconds:
                left = len(cards) - number + 1
                print(f"{left} more {'is' if left == 1 else 'are'} left for the next time.")
                break
            of = "" if seconds < math.inf else f" of {len(cards)}"
            print(encodable(f"Question {number}{of} · {card.kata.title}\n", sys.stdout), flush=True)
            keep(card, _one(card, screen))
    except (KeyboardInterrupt, EOFError):
        print("\nThe rest is left; what you have rated is kept.")
    print(flush=True)


def _one(card: QuestionCard, screen: Screen) -> Answer | None:
    """Ask one question, show the points of a good answer, and take the rating.

    Where the answer is a number its settings are drawn, and what was typed is compared.
    """
    number = card.question.number
    settings = {name: random.choice(values) for name, values in number.settings.items()} if number else {}
    screen.markdown(f"**{numbers.asked(card.question.text, settings)}**")
    asked = time.time()
    how = f"Type a number{number.unit and f' of {number.unit}'}" if number else "Answer aloud, or type it here"
    typed = input(f"\n{how}. Enter shows the points, s skips.\n> ").strip()
    if typed.lower() in ("s", "skip"):
        print()
        return None
    seconds = time.time() - asked
    if number:
        typed = _compared(number, settings, typed)
        print("\n" + filled(encodable(typed, sys.stdout), sys.stdout))
    points = "\n".join(f"- {point}" for point in card.question.points)
    screen.markdown(f"{points}\n\n*Source:* {card.question.source}")
    while True:
        word = input(f"\nHow well did you know it? {SCALE}, s skip: ").strip().lower()
        if word in ("s", "skip"):
            print()
            return None
        if word in WORDS:
            print()
            return Answer(asked, card.kata.name, card.question.text, WORDS[word], seconds, typed)
        print(f"'{word}' is none of {SCALE}.")


def _compared(number: numbers.Number, settings: numbers.Settings, typed: str) -> str:
    """What was typed, whether it is right, and what is, for these settings."""
    answer = numbers.typed(typed, number.unit)
    given = ", ".join(f"{name} = {numbers.shown(value)}" for name, value in settings.items())
    right = f"{number.shown(number.value(settings))} for {given}, by {number.formula}"
    if answer is None:
        return f"{typed} is no number: it is {right}" if typed else f"It is {right}"
    if number.fits(answer, settings):
        return f"{typed} is right: {right}"
    return f"{typed} is not right: it is {right}; within {number.percent:g} % would do"


def remember(answer: Answer) -> None:
    """Keep an answer in the history; a trouble is told and stops nothing."""
    if trouble := database.remember(answers=[answer]):
        print(f"dojo: {trouble}", file=sys.stderr)
