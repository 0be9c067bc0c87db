"""How a mock went: tiers over time, what took how long, hints, questions, and one's own earlier mocks of the kata."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from dojo.content import catalog, master
from dojo.practice import database, progress
from dojo.practice.database import Aid, Unreadable
from dojo.practice.interview.questions import LEFT
from dojo.practice.interview.status_line import clock
from dojo.verdict.screen.text import encodable, readable
from dojo.verdict.types import PASSED, SOLVED, Tier

if TYPE_CHECKING:
    from dojo.content.catalog import Kata
    from dojo.practice.database import Attempt
    from dojo.practice.interview.timed_session import Event, TimedSession
    from dojo.verdict.types import Verdict

SHADES = "·░▒▓█"  # of a tier: nothing passes, up to all of it
COLUMNS, WIDTH = 52, 80


def show(held: TimedSession, final: dict[str, Verdict]) -> None:
    """Print the scorecard of each kata of a mock."""
    for name in held.katas:
        print(encodable("\n".join(_card(held, catalog.katas()[name], final.get(name))) + "\n", sys.stdout))


def _card(held: TimedSession, kata: Kata, last: Verdict | None) -> list[str]:
    events = [event for event in held.events if event.kata == kata.name]
    lines = [f"  {label:<17}  {value}" for label, value in rows(held, kata, last).items()]
    card = [f"{kata.title} ({kata.name})", *plot(events, held.spent, 60.0 * kata.minutes), *lines, *_rated(held, kata)]
    return [row if len(row) <= WIDTH else f"{row[: WIDTH - 2].rstrip()} …" for row in card]


def rows(held: TimedSession, kata: Kata, last: Verdict | None) -> dict[str, str]:
    """What a scorecard says of a kata, by labels."""
    events = [event for event in held.events if event.kata == kata.name]
    solved, hints = first(events, SOLVED), len(master.hints(kata))
    found = {
        "verdict": last.state if last else "no file",
        "first run": clock(next((e.at for e in events if e.ran and e.verdict != "broken"), None)),
        "right": clock(solved) + compared(solved, kata),
        "passed": clock(first(events, (PASSED,))),
        "gradings": str(len(events)),
        "hints": "none, as in an interview" if held.real else f"{held.hints.get(kata.name, 0)} of {hints}",
        "earlier mocks": against_earlier(solved, _earlier(held, kata)),
    }
    if (helped := aid(held, kata)) != Aid(held.hints.get(kata.name, 0)):
        found["verdict"] += f", {helped.words}"
    longest = failed_longest(events, held.spent)
    if longest and longest[1] >= 1:
        found["failed longest"] = f"{clock(longest[1])}, {longest[0]}"
    with contextlib.suppress(Unreadable):
        found["stands now"] = progress.standings([kata])[kata.name].label
    return found


def _earlier(held: TimedSession, kata: Kata) -> list[Attempt]:
    """One's own mocks of a kata before this one."""
    try:
        attempts = database.recall_brief()
    except Unreadable:
        return []  # who recorded this mock has said why
    return [each for each in attempts if (each.kind, each.kata) == ("mock", kata.name) and each.at < held.begun]


def aid(held: TimedSession, kata: Kata) -> Aid:
    """The help that counts in a session: its hints, and what came before unless the stub was fresh long after it.

    In a hunt, whose solution is handed over, the hints alone.
    """
    mine = Aid(held.hints.get(kata.name, 0))
    before = Aid() if held.kind == "hunt" else progress.aid(kata, begun=held.begun)
    return Aid(max(mine.hints, before.hints), before.shown)


def plot(events: Sequence[Event], spent: float, par: float) -> list[str]:
    """A row a tier, how much of it passed as time went by, above an axis of that time."""
    by_tier = course(events, spent)
    if not by_tier:
        return []
    rows = [f"  {tier:<7} {''.join(map(_shade, scores))} {scores[-1]}" for tier, scores in by_tier.items()]
    end, at = clock(spent), int(COLUMNS * par / spent)
    axis = f"{'0:00':<{COLUMNS - len(end)}}{end}"
    if 5 <= at <= COLUMNS - len(end) - 5:
        axis = f"{axis[:at]}|par{axis[at + 4 :]}"
    return [*rows, f"  {'':<7} {axis}"]


def course(events: Sequence[Event], spent: float) -> dict[str, list[str]]:
    """By tier, how much of it passed, as 9/18, at so many times from the beginning to the end."""
    graded = [event for event in events if event.scores]
    if not graded or not spent:
        return {}
    times = [spent * (column + 1) / COLUMNS for column in range(COLUMNS)]
    until = [[event for event in graded if event.at <= time] for time in times]
    until[-1] = graded
    tiers = [tier for tier in Tier if tier in graded[-1].scores]
    return {tier.value: [seen[-1].scores.get(tier, "") if seen else "" for seen in until] for tier in tiers}


def _shade(score: str) -> str:
    """A score, as 9/18, in one character; full only where all of it passed."""
    if not score:
        return " "
    passed, count = map(int, score.split("/"))
    return SHADES[-1] if passed == count else SHADES[0] if not passed else SHADES[1 + 3 * passed // (count + 1)]


def first(events: Iterable[Event], words: Collection[str]) -> float | None:
    """When one of these verdicts was first given."""
    return next((event.at for event in events if event.word in words), None)


def failed_longest(events: Sequence[Event], end: float) -> tuple[str, float] | None:
    """The check that was red for the longest time, and for how long."""
    red: dict[str, float] = {}
    for event, until in zip(events, [*(e.at for e in events[1:]), end], strict=False):
        for check in event.failing:
            red[check] = red.get(check, 0.0) + until - event.at
    if not red:
        return None
    name, seconds = max(red.items(), key=lambda item: item[1])
    return readable(name), seconds


def against_earlier(solved: float | None, earlier: Sequence[Attempt]) -> str:
    """How the time until it was right stands to one's own mocks before."""
    times = [attempt.spent for attempt in earlier if attempt.solved and attempt.spent is not None]
    if not earlier:
        return "none: this is the first"
    text = f"{len(times)} of {len(earlier)} right"
    if not times:
        return text + ("; this is the first that is right" if solved is not None else "")
    text += f", the fastest in {clock(min(times))}"
    if solved is None:
        return text
    gap = solved - min(times)
    return f"{text}; this one {clock(abs(gap))} {'slower' if gap > 0 else 'faster'}"


def compared(seconds: float | None, kata: Kata) -> str:
    """How a time stands to the kata's par."""
    if seconds is None:
        return f" (par {kata.minutes} min)"
    return f", {seconds / 60 / kata.minutes:.0%} of par ({kata.minutes} min)"


def _rated(held: TimedSession, kata: Kata) -> list[str]:
    """The questions that were asked, and how they were rated."""
    from dojo.verdict.screen.markdown import plain

    asked = {text: word for text, word in held.ratings.get(kata.name, {}).items() if word not in ("", LEFT)}
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    rows = [f"  {word:<17}  {plain(text, encoding)}" for text, word in asked.items()]
    left = len(held.ratings.get(kata.name, {})) - len(asked)
    count = f"{len(asked)} asked" + (f", {left} left" if left else "")
    return [f"  {'questions':<17}  {count}", *rows] if asked or left else []
