"""`history` and `next`: what has been tried, how it differs, one of it back again, and what to practise now."""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from dojo.content import catalog, files, sync
from dojo.content.catalog import Kata, Trouble
from dojo.practice import database, progress, schedule
from dojo.practice.database import Attempt

if TYPE_CHECKING:
    from dojo.verdict.types import Verdict


def record(
    graded: Iterable[tuple[Kata, str, Verdict]],
    kind: str = "grade",
    spent: float | None = None,
    hints: int | None = None,
) -> None:
    """Remember gradings, each a kata, the attempt's text and the verdict; a trouble is told and stops nothing."""
    attempts = [
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
            hints=progress.hints_taken(kata) if hints is None else hints,
            text=source,
            details=verdict.to_json(pictures=True),
        )
        for kata, source, verdict in graded
    ]
    trouble = database.remember(attempts)
    if trouble:
        print(f"dojo: {trouble}", file=sys.stderr)


def show_next(args: argparse.Namespace) -> int:
    """Print what to practise now."""
    print(proposals(args.count))
    return 0


def proposals(count: int) -> str:
    """What to practise now, the most urgent first."""
    katas = catalog.katas()
    standings = progress.standings(katas.values())
    proposed = schedule.propose(katas, standings)
    if not proposed:
        date, name = min((standing.due, name) for name, standing in standings.items() if standing.due)
        return f"nothing is due; {name} comes next, on {date.astimezone():%d %B at %H:%M}."
    lines = [
        f"{number}. {due.kata.name:<18}  {due.kata.title}, {due.kata.minutes} min — {due.reason}"
        for number, due in enumerate(proposed[:count], 1)
    ]
    first = proposed[0].kata.name
    return "\n".join([*lines, "", f"`nox -s mock -- {first}` for the clock, `nox -s grade -- {first}` without it."])


def main(args: argparse.Namespace) -> int:
    """List, compare, restore, export or import attempts."""
    if args.export:
        print(f"{database.export(args.export)} attempts written to {args.export}")
        return 0
    if getattr(args, "import"):
        new, old = database.take_in(getattr(args, "import"))
        print(f"{new} attempts taken in, {old} were known already")
        return 0
    if not args.name:
        print(overview())
        return 0
    kata = catalog.one(args.name)
    attempts = database.recall_all(kata.name)
    if args.diff:
        return show_difference(kata, attempts, *args.diff)
    if args.restore is not None:
        print(restore(kata, numbered(kata, attempts, args.restore)))
        return 0
    print(listing(kata))
    return 0


def listing(kata: Kata) -> str:
    """The attempts at a kata, a numbered line each."""
    attempts = database.recall_all(kata.name)
    if not attempts:
        return f"{kata.name} has no history yet: `nox -s grade -- {kata.name}` begins it."
    lines = [f"{kata.title} ({kata.name})", ""]
    lines += [f"  {number:>3}  {line(attempt)}" for number, attempt in enumerate(attempts, 1)]
    compare = f"`nox -s history -- {kata.name} --diff 1 {len(attempts)}` compares, `--restore N` brings one back."
    return "\n".join([*lines, "", compare])


def overview() -> str:
    """One line for each kata that has a history."""
    attempts = database.recall_all()
    if not attempts:
        return f"nothing is remembered yet. Gradings are kept in {database.place()}."
    lines = []
    for kata in catalog.katas().values():
        own = [attempt for attempt in attempts if attempt.kata == kata.name]
        if own:
            passes = sum(attempt.passed for attempt in own)
            lines.append(f"{kata.name:<18}  {len(own):>3} attempts, {passes} passed; last {line(own[-1])}")
    return "\n".join([*lines, "", f"kept in {database.place()}; `nox -s history -- NAME` lists a kata's attempts."])


def line(attempt: Attempt) -> str:
    """An attempt in one line."""
    when = datetime.fromtimestamp(attempt.at).strftime("%Y-%m-%d %H:%M")
    tiers = ", ".join(f"{tier} {word}" for tier, word in attempt.tiers.items())
    more = f", {attempt.hints} hint{'s' * (attempt.hints != 1)}" if attempt.hints else ""
    spent = f", {int(attempt.spent // 60)}:{int(attempt.spent % 60):02d} of {attempt.kind}" if attempt.spent else ""
    return f"{when}  {attempt.verdict:<7}  {tiers}{spent}{more}"


def numbered(kata: Kata, attempts: list[Attempt], number: int) -> Attempt:
    """The attempt of that number in the list. Raises Trouble when there is none."""
    if not 1 <= number <= len(attempts):
        raise Trouble(f"{kata.name} has {len(attempts)} attempts in its history, and none of number {number}")
    return attempts[number - 1]


def show_difference(kata: Kata, attempts: list[Attempt], first: int, second: int) -> int:
    """Print what changed between two attempts."""
    old, new = (numbered(kata, attempts, number).text.splitlines() for number in (first, second))
    found = list(difflib.unified_diff(old, new, f"attempt {first}", f"attempt {second}", lineterm=""))
    print("\n".join(found) if found else f"attempts {first} and {second} are the same.")
    return 0


def restore(kata: Kata, attempt: Attempt) -> str:
    """Put an attempt's text back into the kata's stub; what was there is kept. Returns the sentence that says where."""
    kept = ""
    if kata.stub.exists():
        copy = files.keep(kata.home / "kept", kata.stub, kata.stub.read_bytes())
        kept = f"; what was there is in {kata.say(copy)}"
    files.write_atomic(kata.stub, attempt.text)
    try:
        sync.sync(kata, "script")
    except sync.SyncError as error:
        print(f"dojo: {error}", file=sys.stderr)
    when = datetime.fromtimestamp(attempt.at).strftime("%Y-%m-%d %H:%M")
    return f"{kata.say(kata.stub)} is the attempt of {when} again{kept}."
