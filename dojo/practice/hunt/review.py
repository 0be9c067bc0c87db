"""`review`: a pull request with planted bugs, to be read against the clock; nothing is run."""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from dojo.content import catalog
from dojo.content.catalog import Kata, Trouble, typed
from dojo.grading.options import fresh_seed
from dojo.practice import database, progress
from dojo.practice.database import Attempt
from dojo.practice.hunt import bug_hunt, findings, reading, refactoring
from dojo.practice.hunt.planting import Wish, bugs_named, choose, planted, program
from dojo.practice.hunt.reading import DONE
from dojo.practice.interview import mock, timed_session
from dojo.practice.interview.runner import TerminalDesk
from dojo.practice.interview.status_line import clock
from dojo.practice.interview.timed_session import Change, End, TimedSession
from dojo.verdict.screen.text import told_while

if TYPE_CHECKING:
    from dojo.judge.fork_server import ForkServer
    from dojo.practice.hunt.findings import Findings
    from dojo.practice.hunt.reading import Remark
    from dojo.practice.interview.session_loop import Desk

MINUTES = 15.0
FEWEST, MOST = 2, 4  # bugs
ABOUT = f"It has {FEWEST} to {MOST} bugs, which give wrong values. You read: nothing is run."
ENDS = "`done` ends the review."


def main(args: argparse.Namespace) -> int:
    """Hold a review; returns 0 when every bug was found, without a false alarm."""
    if args.resume is not None:
        return hold(mock.resumed("review", args.resume), TerminalDesk(not args.no_record), tell)
    seed = fresh_seed(args.seed)
    if args.random:
        kata = refactoring.by_chance(refactoring.pull_requests, seed)
    elif args.name:
        kata = catalog.one(args.name)
    else:
        raise Trouble(f"name a kata, as in `{typed('review rope')}`, or let chance pick: `{typed('review --random')}`")
    if not args.yes and not bug_hunt.may_see([kata], "review"):
        print("nothing was planted")
        return 1
    from dojo.judge.fork_server import ForkServer

    server = ForkServer()
    try:
        with told_while("planting, and checking that every bug shows …"):
            held = begin(kata, seed, args.minutes, server)
    finally:
        server.close()
    print(f"Seed {seed} plants the same again.")
    if args.prepare:
        return timed_session.prepared(held.folder)
    return hold(held, TerminalDesk(not args.no_record), tell)


def begin(kata: Kata, seed: int, minutes: float | None, server: ForkServer) -> TimedSession:
    """Plant bugs into a change of a pull request's length, and begin a session with it. Raises Trouble."""
    before, right, names = requested(kata, seed, server)
    sources = {kata.name: program(planted(right, bugs_named(kata, names)))}
    change, seconds = Change(before, right), 60.0 * (minutes or MINUTES)
    held = timed_session.begin("review", [kata], seconds, sources, change=change, planted={kata.name: names})
    reading.hand_out(held, [DONE])
    return held


def requested(kata: Kata, seed: int, server: ForkServer) -> tuple[str, str, list[str]]:
    """What stood there, the text of a right program, and the two to four bugs to be planted into it. Raises Trouble."""
    rng = random.Random(f"review {kata.name} {seed}")
    count = rng.randint(FEWEST, MOST)
    for before, right in refactoring.pull_requests(kata, rng):
        shows: dict[str, bool] = {}
        for bugs in range(count, FEWEST - 1, -1):  # as many as are found that do not hide each other
            names = choose(Wish(kata.name, bugs, seed, text=right), server, shows)
            if len(names) < bugs:
                continue
            some = bugs_named(kata, names)
            lines = refactoring.change(before, program(planted(right, some)))
            fits = refactoring.SHORTEST <= len(lines) <= refactoring.LONGEST
            if fits and findings.shown(findings.standing_in(right, some), lines):
                return before, right, names
    lengths = f"{refactoring.SHORTEST} to {refactoring.LONGEST}"
    raise Trouble(
        f"{kata.name} has no change of {lengths} lines to be reviewed: take a longer one, such as rope, or let chance "
        f"pick: `{typed('review --random')}`"
    )


def hold(held: TimedSession, desk: Desk, conclude: Callable[[TimedSession, Findings], None]) -> int:
    """Hold a review: show the change, hear remarks, and tell what was found."""
    kata = catalog.katas()[held.katas[0]]
    if desk.recorded:
        progress.note_solution(kata)
    with timed_session.alone(held):
        if held.end is End.OPEN and not desk.read(reading.Reading(held, [DONE]), "a pull request", ABOUT, ENDS):
            return desk.cut_off([held], held)
        remarks = reading.remarks(held)
        result = findings.matched(remarks, findings.of(held))
        solved = not result.missed and not result.false_alarms
        if desk.recorded:
            record(held, remarks, result, solved)
        conclude(held, result)
        held.concluded = True
        held.save()
    return 0 if solved else 1


def tell(held: TimedSession, result: Findings) -> None:
    """Print the scorecard, and every bug with the diff that mends it."""
    kata = catalog.katas()[held.katas[0]]
    print()
    findings.card(f"{kata.title} ({kata.name}), a review", rows(held, result))
    findings.tell(findings.of(held), result)


def rows(held: TimedSession, result: Findings) -> dict[str, str]:
    """What the scorecard says, by labels."""
    end = "" if held.change and held.change.word else f", {held.end}"
    return {
        "found": f"{len(result.found)} of {len(result.found) + len(result.missed)}",
        "missed": str(len(result.missed)),
        "false alarms": str(len(result.false_alarms)),
        "time": f"{clock(held.spent)} of {clock(held.seconds)}{end}",
    }


def record(held: TimedSession, remarks: list[Remark], result: Findings, solved: bool) -> None:
    """Remember a review by its remarks; a trouble is told and stops nothing."""
    (name,) = held.katas
    details = {"found": [*result.found], "missed": result.missed, "false_alarms": len(result.false_alarms)}
    text = "".join(f"{line}: {reason}\n" for line, reason in remarks)
    verdict = "passed" if solved else "failed"
    database.note([Attempt(time.time(), name, "review", verdict, {}, [], 0.0, held.spent, 0, text, details)])
