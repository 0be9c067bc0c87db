"""`history` and `next`: what has been tried, how it differs, one of it back again, and what to practise now."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dojo.content import catalog, files, sync
from dojo.content.catalog import Kata, Trouble, typed
from dojo.practice import database, progress
from dojo.practice.database import HANDED_OUT, HINT, SOLUTION, Aid, Answer, Attempt, Help, Unreadable
from dojo.practice.schedule import plans, repetition
from dojo.verdict.screen.text import filled
from dojo.verdict.types import Tier

if TYPE_CHECKING:
    from dojo.verdict.types import Verdict

LINE = "{:>3}  {:<16}  {:<5}  {:<11}  {:>5}  {:>6}  {:>5}  {:>5}  {:>7}"
HEADS = (*Tier, "min", "help")
COLOURS = {"---": "bold", "+++": "bold", "-": "red", "+": "green", "@": "cyan"}


def record(
    graded: Sequence[tuple[Kata, str, Verdict]],
    kind: str = "grade",
    spent: float | None = None,
    aid: Aid | None = None,
) -> None:
    """Remember gradings, as `keep` does; a trouble is told and stops nothing."""
    if trouble := keep(graded, kind, spent, aid):
        print(f"dojo: {trouble}", file=sys.stderr)


def keep(
    graded: Sequence[tuple[Kata, str, Verdict]],
    kind: str = "grade",
    spent: float | None = None,
    aid: Aid | None = None,
) -> str | None:
    """Remember gradings, each a kata, the attempt's text and the verdict; returns why that could not be, or None.

    Without an `aid` it is the help that counts for this text.
    """
    helped = {kata.name: progress.aid(kata, source) if aid is None else aid for kata, source, _ in graded}
    return database.remember(
        [
            Attempt(
                at=time.time(),
                kata=kata.name,
                kind=kind,
                verdict=verdict.verdict,
                tiers=verdict.tiers,
                failing=[
                    {"name": c.name, "tier": c.tier.value, "outcome": c.outcome.value, "diagnosis": c.diagnosis}
                    for c in verdict.checks
                    if not c.outcome.harmless
                ],
                seconds=verdict.seconds,
                spent=spent,
                hints=helped[kata.name].hints,
                shown=helped[kata.name].shown,
                text=source,
                details=verdict.to_json(pictures=True),
            )
            for kata, source, verdict in graded
        ]
    )


def proposals(count: int) -> str:
    """What to practise now, the most urgent first."""
    katas = catalog.katas()
    standings = progress.standings(katas.values())
    proposed = plans.propose(katas, standings, plan=plans.kept_plan())
    asked = questions_due(katas)
    if not proposed:
        date, name = min((standing.due, name) for name, standing in standings.items() if standing.due)
        return "\n".join([f"nothing is due; {name} comes next, on {date.astimezone():%d %B at %H:%M}.", *asked])
    lines = [
        f"{number}. {due.kata.name:<18}  {due.kata.title}, {due.minutes} min — {due.reason}"
        for number, due in enumerate(proposed[:count], 1)
    ]
    return "\n".join([*lines, "", proposed[0].steps, *asked])


def questions_due(katas: Mapping[str, Kata]) -> list[str]:
    """The line that says which questions are due, if any are."""
    due = count_questions_due(katas)
    count, named = due.total(), ", ".join(f"{name} {number}" for name, number in due.items())
    word = f"{count} question{'s are' if count > 1 else ' is'} due ({named})"
    return [f"{word}: `{typed('quiz')}` asks what fits into two minutes."] if due else []


def count_questions_due(katas: Mapping[str, Kata]) -> Counter[str]:
    """How many questions of which kata are due. Raises Unreadable."""
    cards = repetition.question_cards(katas.values(), database.answers())
    return Counter(card.kata.name for card in repetition.questions_due(cards, datetime.now(UTC)))


def main(args: argparse.Namespace) -> int:
    """List, compare, restore, export or import attempts."""
    if args.export:
        print(f"{counted(*export(args.export))} written to {args.export}")
    elif getattr(args, "import"):
        *new, old = take_in(getattr(args, "import"))
        print(f"{counted(*new)} taken in; known already: {old}")
    elif args.diff or args.restore:
        kata = catalog.one(args.name)
        attempts = database.recall_all(kata.name)
        if args.diff:
            show_difference(kata, attempts, *args.diff)
        else:
            print(filled(restore(kata, numbered(kata, attempts, args.restore)), sys.stdout))
    else:
        print(filled(listing(catalog.one(args.name)) if args.name else overview(), sys.stdout))
    return 0


def export(path: Path) -> tuple[int, int]:
    """Write everything to a file of JSON Lines; returns how many attempts there were, and how many answers.

    Help goes with it, uncounted.
    """
    attempts, given, helped = _everything()
    everything: list[Attempt | Answer | Help] = [*attempts, *given, *helped]
    lines = [json.dumps(asdict(each)) for each in everything]
    files.write_atomic(path, "".join(f"{line}\n" for line in lines))
    return len(attempts), len(given)


def take_in(path: Path) -> tuple[int, int, int]:
    """Add what a file of JSON Lines holds and is not known yet.

    Returns how many attempts and how many answers were new, and how many of both not; help comes with them, uncounted.
    Raises Unreadable when a line is none of these; then nothing is added.
    """
    known = {_key(each) for of_a_kind in _everything() for each in of_a_kind}
    new: dict[type, list[Any]] = {Attempt: [], Answer: [], Help: []}
    old = 0
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path} cannot be read: {error}") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            message = json.loads(line)
            kind = Answer if "question" in message else Help if "number" in message else Attempt
            each = kind(**message | ({"id": None} if kind is Attempt else {}))
            key = _key(each)
            if isinstance(each, Answer) and each.rating not in database.RATINGS:
                raise ValueError(f"'{each.rating}' is no rating")
        except (ValueError, TypeError, AttributeError) as error:
            raise Unreadable(
                f"{path}, line {number}, is no attempt and no answer: {error}. Nothing was taken in."
            ) from None
        if key in known:
            old += kind is not Help
        else:
            known.add(key)
            new[kind].append(each)
    if any(new.values()) and (trouble := database.remember(*new.values())):
        raise Unreadable(trouble)
    return len(new[Attempt]), len(new[Answer]), old


def _everything() -> tuple[list[Attempt], list[Answer], list[Help]]:
    return database.recall_all(), database.answers(), database.helps()


def _key(each: Attempt | Answer | Help) -> tuple[float, str, str, str]:
    """What tells an attempt, an answer or help from every other."""
    kind = each.question if isinstance(each, Answer) else each.kind
    return float(each.at), str(each.kata), kind, str(each.number) if isinstance(each, Help) else each.text


def listing(kata: Kata) -> str:
    """The attempts at a kata, a numbered line each."""
    attempts = [attempt for attempt in database.recall_brief() if attempt.kata == kata.name]
    if not attempts:
        return f"{kata.name} has no history yet: `{typed(f'grade {kata.name}')}` begins it."
    standing = progress.standings([kata], attempts)[kata.name]
    lines = [f"{kata.title} ({kata.name}): {standing.label}", "", LINE.format("", "when", "kind", "verdict", *HEADS)]
    for number, each in enumerate(rows(attempts), 1):
        lines.append(LINE.format(number, each.when, each.kind, each.word, *each.tiers, each.minutes, each.help))
    diff = f"`{typed(f'history {kata.name} --diff 1 {len(attempts)}')}` compares, `--restore N` brings one back."
    alone = f"`{typed(f'history {kata.name} --restore 1')}` brings it back."
    compare = diff if len(attempts) > 1 else alone
    return "\n".join([*(line.rstrip() for line in lines), "", compare])


class Row(NamedTuple):
    """An attempt as a list of them tells it."""

    when: str
    kind: str
    word: str
    tiers: tuple[str, ...]  # of each tier how many of its checks passed, as 9/18, or a word
    minutes: str
    help: str


def rows(attempts: Sequence[Attempt]) -> list[Row]:
    """Attempts at one kata, oldest first, each as a list tells it. Raises Unreadable."""
    scores, sittings = database.scores(attempts), repetition.sittings(attempts)
    spent = {id(a): (a.spent or a.at - s.attempts[0].at) / 60 for s in sittings for a in s.attempts}
    found = []
    for attempt in attempts:
        counted = scores.get(attempt.id or 0, {})
        tiers = tuple(counted.get(tier, attempt.tiers.get(tier, "")) for tier in Tier)
        minutes = f"{spent[id(attempt)]:.1f}" if spent[id(attempt)] else ""
        helped = "shown" if attempt.shown else attempt.aid.words.removeprefix("with ")
        found.append(Row(when(attempt), attempt.kind, word(attempt), tiers, minutes, helped))
    return found


def overview() -> str:
    """One line for each kata that has a history, one for the hunts and one for the reviews."""
    katas = catalog.katas()
    standings = {name: each for name, each in progress.standings(katas.values()).items() if each.gradings or each.hunts}
    if not standings:
        return f"nothing is remembered yet. Gradings are kept in {database.place()}."
    lines = [f"{'kata':<18}  {'state':<23}  attempts  solved  passed  last"]
    for name, standing in standings.items():
        if standing.last:
            solved, passed = (sum(map(attrgetter(word), standing.gradings)) for word in ("solved", "passed"))
            count = f"{len(standing.gradings):>8}  {solved:>6}  {passed:>6}"
            lines.append(f"{name:<18}  {standing.label:<23}  {count}  {when(standing.last)}")
    held = {f"{kind}s": progress.hunts(standings, kind) for kind in HANDED_OUT}
    told = [f"{kinds} solved, which change no state: {counts}" for kinds, counts in held.items() if counts]
    lines += ["", *told] if told else []
    return "\n".join([*lines, "", f"kept in {database.place()}; `{typed('history NAME')}` lists a kata's attempts."])


def when(attempt: Attempt) -> str:
    """The date and time of an attempt."""
    return datetime.fromtimestamp(attempt.at).strftime("%Y-%m-%d %H:%M")


def word(attempt: Attempt) -> str:
    """How an attempt ended."""
    if attempt.kind in HANDED_OUT:
        return "solved" if attempt.passed else "not solved"
    return attempt.word


def numbered(kata: Kata, attempts: list[Attempt], number: int) -> Attempt:
    """The attempt of that number in the list. Raises Trouble when there is none."""
    if not 1 <= number <= len(attempts):
        raise Trouble(f"{kata.name} has {counted(len(attempts))} in its history, and none of number {number}")
    return attempts[number - 1]


def show_difference(kata: Kata, attempts: list[Attempt], first: int, second: int) -> None:
    """Print what changed between two attempts."""
    old, new = (numbered(kata, attempts, number).text.splitlines() for number in (first, second))
    found = list(difflib.unified_diff(old, new, f"attempt {first}", f"attempt {second}", lineterm=""))
    if not found:
        print(f"attempts {first} and {second} are the same.")
    else:
        print_difference(found)


def print_difference(lines: list[str]) -> None:
    """Print a diff, coloured on a terminal and as it is in a pipe, for `patch`."""
    if not sys.stdout.isatty():
        print("\n".join(lines))
        return
    from rich.console import Console
    from rich.text import Text

    text = Text("\n").join(Text(line, COLOURS.get(line[:3], COLOURS.get(line[:1], ""))) for line in lines)
    Console(highlight=False).print(text, soft_wrap=True)


def counted(attempts: int, answers: int = 0) -> str:
    """A number of attempts in words, and one of answers to questions."""
    counts = f"{attempts} attempt{'s' * (attempts != 1)}"
    return f"{counts} and {answers} answer{'s' * (answers != 1)}" if answers else counts


def restore(kata: Kata, attempt: Attempt) -> str:
    """Put an attempt's text back into the kata's stub; what was there is kept. Returns the sentence that says where.

    The help that it had counts again. Raises Trouble for what a hunt left: that is the solution, and graded in the stub
    it would pass as the user's own. What a review left are remarks.
    """
    if attempt.kind == "review":
        raise Trouble(f"the attempt of {when(attempt)} is a review: its text are remarks and no program")
    if attempt.kind == "hunt":
        raise Trouble(f"the attempt of {when(attempt)} is a hunt's: its text is the solution, not yours to be graded")
    kept = apart = ""
    if kata.stub.exists():
        copy = files.keep(kata.home / "kept", kata.stub, kata.stub.read_bytes())
        kept = f"; what was there is in {kata.say(copy)}"
    files.write_atomic(kata.stub, attempt.text)
    helped = [Help(time.time(), kata.name, HINT, number) for number in range(1, attempt.hints + 1)]
    helped += [Help(time.time(), kata.name, SOLUTION)] if attempt.shown else []
    if helped:
        database.note(helps=helped)
    try:
        sync.sync(kata, "script", opened=True)
    except sync.SyncError as error:
        apart = f" The notebook is not: {error}"
    return f"{kata.say(kata.stub)} is the attempt of {when(attempt)} again{kept}.{apart}"
