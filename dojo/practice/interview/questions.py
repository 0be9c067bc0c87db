"""What an interviewer asks after the code: one question at a time, answered aloud or typed, rated by who answered."""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.content import catalog, files, master, numbers
from dojo.content.catalog import typed
from dojo.practice import database
from dojo.practice.database import RATINGS, Answer, Unreadable
from dojo.practice.schedule import repetition
from dojo.verdict.screen.text import encodable, filled

if TYPE_CHECKING:
    from dojo.practice.interview.session_loop import Desk
    from dojo.practice.interview.timed_session import TimedSession
    from dojo.practice.schedule.repetition import QuestionCard
    from dojo.verdict.screen.terminal import Screen

COUNT = {1: 3, 2: 3, 3: 4, 4: 5, 5: 5}  # questions after the code, by level
ANSWERS = "answers.md"  # in a mock's folder
SKIPPED, LEFT = "skipped", "left"
WORDS = {str(number): word for number, word in enumerate(RATINGS, 1)} | {word: word for word in RATINGS}
SCALE = ", ".join(f"{number} {word}" for number, word in enumerate(RATINGS, 1))
NO_TERMINAL = "no questions: nobody can be asked, for standard input is no terminal"


def after_the_code(held: TimedSession, desk: Desk) -> None:
    """Ask about the katas of a mock what has not been asked in it yet; each answer is kept as it comes."""
    waiting = to_ask(held)
    if not waiting:
        return
    if not desk.hears:
        desk.say(f"{NO_TERMINAL}; `{typed(f'quiz {held.katas[0]}')}` asks them on one.\n")
        return

    def keep(card: QuestionCard, answer: Answer | None) -> None:
        held.ratings[card.kata.name][card.question.text] = answer.rating if answer else SKIPPED
        if answer:
            held.answers.setdefault(card.kata.name, {})[card.question.text] = answer.text
        held.save()
        if answer and desk.recorded:
            database.note(answers=[answer])

    ask(waiting, keep, desk.question, say=desk.say)
    for asked in held.ratings.values():
        asked |= {text: LEFT for text, rating in asked.items() if not rating}
    held.save()


def to_ask(held: TimedSession) -> list[QuestionCard]:
    """The questions of a mock that are not answered yet; which they are is drawn once."""
    katas = [catalog.katas()[name] for name in held.katas]
    try:
        answers = database.answers()
    except Unreadable:
        answers = []  # whoever writes the next answer tells why
    cards = repetition.question_cards(katas, answers)
    for kata in katas:
        mine = [card for card in cards if card.kata is kata]
        held.ratings.setdefault(kata.name, {card.question.text: "" for card in chosen(mine, COUNT[kata.level])})
    return [card for card in cards if held.ratings[card.kata.name].get(card.question.text) == ""]


def show_answers(held: TimedSession, screen: Screen) -> None:
    """Show what was typed beside the points of a good answer, and where all that was answered is kept."""
    if typed_alone := transcript(held, aloud=False):
        screen.markdown(f"## What you answered, and the key points\n\n{typed_alone}")
    if path := keep_answers(held):
        print(filled(f"\nAnswers and key points are kept in {catalog.katas()[held.katas[0]].say(path)}.\n", sys.stdout))


def keep_answers(held: TimedSession) -> Path | None:
    """Write all that was answered into the mock's folder; None where nothing was."""
    whole = transcript(held)
    if not whole:
        return None
    path = held.folder / ANSWERS
    files.write_atomic(path, f"# Questions and answers\n\n{whole}\n")
    return path


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


class Posed:
    """A question as it is put now: where its answer is a number its settings are drawn."""

    def __init__(self, card: QuestionCard) -> None:
        self.card, self.number = card, card.question.number
        drawn = self.number.settings.items() if self.number else ()
        self.settings = {name: random.choice(values) for name, values in drawn}
        self.text = numbers.asked(card.question.text, self.settings)  # in Markdown
        unit = self.number.unit if self.number else ""
        self.how = f"Type a number{unit and f' of {unit}'}" if self.number else "Answer aloud, or type it here"
        points = "\n".join(f"- {point}" for point in card.question.points)
        self.points = f"{points}\n\n*Source:* {card.question.source}"
        self.typed, self._asked, self._seconds = "", time.time(), 0.0

    def show(self, typed: str) -> str:
        """Take what was typed, before the points are shown; returns how a number stands to the right one."""
        self._seconds = time.time() - self._asked
        self.typed = _compared(self.number, self.settings, typed) if self.number else typed
        return self.typed if self.number else ""

    def rated(self, word: str) -> Answer:
        """The answer, as its user rates it."""
        return Answer(self._asked, self.card.kata.name, self.card.question.text, word, self._seconds, self.typed)


def ask(
    cards: Sequence[QuestionCard],
    keep: Callable[[QuestionCard, Answer | None], None],
    pose: Callable[[Posed, int, int], Answer | None],
    seconds: float = math.inf,
    say: Callable[[str], None] = print,
) -> None:
    """Ask in this order and hand each answer over as it comes, None for a question that was skipped.

    After so many seconds no other question begins. Ctrl-C, or the end of what can be read, leaves the rest.
    """
    started = time.monotonic()
    try:
        for number, card in enumerate(cards, 1):
            if time.monotonic() - started > seconds:
                left = len(cards) - number + 1
                say(f"{left} more {'is' if left == 1 else 'are'} left for the next time.")
                break
            keep(card, pose(Posed(card), number, 0 if seconds < math.inf else len(cards)))
    except (KeyboardInterrupt, EOFError):
        say("\nThe rest is left; what you have rated is kept.")
    say("")


def at_terminal(posed: Posed, number: int, count: int, screen: Screen) -> Answer | None:
    """Ask one question, show the points of a good answer, and take the rating; `count` is how many there are, if told.

    What was typed for a number is compared.
    """
    of = f" of {count}" if count else ""
    print(encodable(f"Question {number}{of} · {posed.card.kata.title}\n", sys.stdout), flush=True)
    screen.markdown(f"**{posed.text}**")
    typed = input(f"\n{posed.how}. Enter shows the points, s skips.\n> ").strip()
    if typed.lower() in ("s", "skip"):
        print()
        return None
    if compared := posed.show(typed):
        print("\n" + filled(encodable(compared, sys.stdout), sys.stdout))
    screen.markdown(posed.points)
    while True:
        word = input(f"\nHow well did you know it? {SCALE}, s skip: ").strip().lower()
        if word in ("s", "skip"):
            print()
            return None
        if word in WORDS:
            print()
            return posed.rated(WORDS[word])
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
