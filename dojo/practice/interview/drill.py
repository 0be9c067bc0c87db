"""`drill`: one short kata from memory, the ask alone, against a clock of five to ten minutes."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from dojo.content import catalog, master
from dojo.content.catalog import Kata, Trouble, typed
from dojo.practice import progress
from dojo.practice.database import Unreadable
from dojo.practice.interview import ladder, mock, scorecard, timed_session
from dojo.practice.interview.runner import TerminalDesk
from dojo.practice.interview.status_line import clock
from dojo.practice.interview.timed_session import DRILL, End, TimedSession
from dojo.practice.schedule import drills, plans
from dojo.practice.schedule.asked import most_asked_first
from dojo.verdict.screen.text import filled
from dojo.verdict.types import SOLVED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dojo.practice.interview.mock import Conclude
    from dojo.practice.interview.session_loop import Desk
    from dojo.verdict.types import Verdict


def main(args: argparse.Namespace) -> int:
    """Hold a drill; returns 0 when it ends right."""
    if args.resume is not None:
        held = mock.resumed(DRILL, args.resume)
    else:
        if args.name:
            kata = named(args.name)
        else:
            kata, why = upcoming()
            print(filled(f"{kata.name}: {why}", sys.stdout))
        held = begin(kata, 60.0 * (args.minutes or drills.minutes(kata)))
        if args.prepare:
            return timed_session.prepared(held.folder)
    return hold(held, TerminalDesk(recorded=not args.no_record), conclude)


def hold(held: TimedSession, desk: Desk, conclude: Conclude) -> int:
    """Hold a drill, or what is left of it."""
    final: dict[str, Verdict] = {}
    with timed_session.alone(held):
        if held.end is End.OPEN:
            with desk.grader() as grader:
                verdicts = mock.write_code(held, desk, grader)
            if verdicts is None:
                return desk.cut_off([held], held)
            final = verdicts
        held.concluded = True
        held.save()
        conclude([held], final)
    return 0 if held.passed(held.katas[0]) else 1


def conclude(rounds: Sequence[TimedSession], final: dict[str, Verdict]) -> None:
    """Say how it went."""
    print(filled(told(rounds[0]), sys.stdout))


def named(word: str) -> Kata:
    """The kata of that name. Raises Trouble where it is too long for a drill."""
    kata = catalog.one(word)
    if not drills.fits(kata):
        raise Trouble(
            f"{kata.name} is of level {kata.level} and takes {kata.minutes} minutes, and a drill is a kata of level "
            f"{drills.LEVEL} at most and {drills.PAR} minutes: `{typed(f'mock {kata.name}')}` holds it whole"
        )
    return kata


def upcoming() -> tuple[Kata, str]:
    """The drill to hold now, and why: what is due, then what is planned, then what is asked most and new."""
    katas, plan = catalog.katas(), plans.kept_plan()
    standings = progress.standings(katas.values())
    due = [each for each in plans.propose(katas, standings) if each.recall is not None]
    planned = [each for each in plans.propose(katas, standings, plan=plan) if each.reason.startswith("planned")]
    chosen = [(each.kata, each.reason) for each in (*due, *planned) if each.how in ("", DRILL)]
    new = [kata for kata in most_asked_first(katas.values()) if not standings[kata.name].solved]
    chosen += [(kata, "new, and asked often") for kata in new]
    found = [(kata, why) for kata, why in chosen if drills.fits(kata)]
    if not found:
        raise Trouble(
            f"no drill is due and none is new: `{typed('next')}` says what is, `{typed('drill NAME')}` names one"
        )
    return found[0]


def begin(kata: Kata, seconds: float, folder: Path | None = None) -> TimedSession:
    """A session with a fresh stub, of which the contract is not a part."""
    stubs = {kata.name: ladder.bare(master.stub_text(kata))}
    return timed_session.begin(DRILL, [kata], seconds, stubs, folder)


def told(held: TimedSession) -> str:
    """How a drill went, when it comes again, and what to do now."""
    kata = catalog.katas()[held.katas[0]]
    solved = held.passed(kata.name)
    right = scorecard.first(held.events, SOLVED) if solved else None
    took = f"not right after {clock(held.spent)}" if right is None else f"right after {clock(right)}"
    hints = held.hints.get(kata.name, 0)
    helped = f", with {hints} hint{'s' * (hints != 1)}" if hints else ""
    try:
        due = progress.standings([kata])[kata.name].due
    except Unreadable:
        due = None
    again = f" It comes again on {due.astimezone():%d %B}." if due and solved else ""
    now = f"`{typed('drill')}` holds the next one"
    if not solved:
        now = f"`{typed(f'show {kata.name}')}` has the whole statement, `{typed(f'hint {kata.name}')}` helps; {now}"
    return f"{kata.title}: {took} of {clock(held.seconds)}{helped}.{again} {now}."
