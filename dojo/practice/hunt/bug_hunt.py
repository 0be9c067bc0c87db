"""`hunt`: a timed session with a solution that has known bugs planted in it, to be found and mended."""

from __future__ import annotations

import argparse
import ast
import random
from typing import TYPE_CHECKING

from dojo.content import catalog
from dojo.content.catalog import Kata, Trouble, typed
from dojo.content.master import read_text, solution_code
from dojo.grading.options import fresh_seed
from dojo.practice.interview import mock, timed_session

if TYPE_CHECKING:
    from dojo.contracts.checks.known_bugs import Bug
    from dojo.practice.interview.timed_session import TimedSession
    from dojo.verdict.types import Verdict


def main(args: argparse.Namespace) -> int:
    """Hold a bug hunt; returns 0 when it is solved."""
    if args.resume is not None:
        return mock.hold(mock.resumed("hunt", args.resume), args, answer)
    seed = fresh_seed(args.seed)
    rng = random.Random(seed)
    if args.random:
        katas = [rng.choice(list(catalog.katas().values()))]
    elif args.names:
        katas = catalog.select(args.names)
    else:
        raise Trouble(f"name a kata, as in `{typed('hunt mha')}`, or let chance pick: `{typed('hunt --random')}`")
    from dojo.contracts.checks.known_bugs import bugs_of

    sources, planted = {}, {}
    for kata in katas:
        bugs = pick(bugs_of(kata), read_text(kata.master), args.bugs, rng)
        sources[kata.name] = hidden(kata, bugs)
        planted[kata.name] = [bug.name for bug in bugs]
    seconds = 60.0 * (args.minutes or sum(max(5, kata.minutes // 2) for kata in katas))
    held = timed_session.begin("hunt", katas, seconds, sources)
    held.planted = planted
    held.save()
    count = f"{args.bugs} bugs are" if args.bugs > 1 else "One bug is"
    print(f"{count} planted in each file; solved when all tiers pass. Seed {seed} plants the same again.")
    return mock.hold(held, args, answer)


def pick(bugs: list[Bug], master: str, count: int, rng: random.Random) -> list[Bug]:
    """Bugs on different lines of the master, which can be planted together. Raises Trouble when there are too few."""
    chosen: list[Bug] = []
    text, lines = master, set[int]()
    for bug in rng.sample(bugs, len(bugs)):
        if len(chosen) == count:
            break
        edited = {master[: master.find(old)].count("\n") for old, _ in bug.edits}
        if edited & lines or not bug.fits(text):
            continue
        text = bug.plant(text)
        lines |= edited
        chosen.append(bug)
    if len(chosen) < count:
        raise Trouble(f"{len(chosen)} bugs can be planted together here, not {count}: ask for fewer")
    return chosen


def hidden(kata: Kata, bugs: list[Bug]) -> str:
    """The solution with these bugs in it, written anew: no comment and no odd spacing gives a place away."""
    text = read_text(kata.master)
    for bug in bugs:
        text = bug.plant(text)
    tree = ast.parse(solution_code(text))
    pieces = [ast.unparse(node) for node in tree.body]
    blocks = (ast.FunctionDef, ast.ClassDef)
    body = pieces[0]
    for node, before, piece in zip(tree.body[1:], tree.body, pieces[1:], strict=False):
        body += ("\n\n\n" if isinstance(node, blocks) or isinstance(before, blocks) else "\n") + piece
    return (
        f"# {kata.title}: somewhere in here is a mistake. `{typed('grade')}` says what is wrong, not where.\n{body}\n"
    )


def answer(held: TimedSession, final: dict[str, Verdict]) -> None:
    """Print what was planted and why it is a mistake."""
    from dojo.contracts.checks.known_bugs import bugs_of
    from dojo.practice.interview.status_line import clock

    for name in held.katas:
        kata = catalog.katas()[name]
        known = {bug.name: bug for bug in bugs_of(kata)}
        passed = name in final and final[name].verdict == "passed"
        took = next((e.at for e in held.events if e.kata == name and e.verdict == "passed"), None)
        print(f"{kata.title} ({name}): {'solved in ' + clock(took) if passed else 'not solved'}")
        for planted in held.planted.get(name, []):
            bug = known.get(planted)
            print(f"  planted: {planted}" + (f" — {bug.why}" if bug else ""))
            for right, wrong in bug.edits if bug else ():
                print(f"    right   {right.strip()}")
                print(f"    planted {wrong.strip()}")
        print()
