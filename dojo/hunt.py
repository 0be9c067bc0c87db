"""`hunt`: a solution with a known bug planted in it, to be found and mended against the clock."""

from __future__ import annotations

import argparse
import ast
import random
import secrets
from typing import TYPE_CHECKING

from dojo import build, catalog, interview, mock
from dojo.catalog import Kata, Trouble

if TYPE_CHECKING:
    from dojo.bugs import Bug
    from dojo.interview import Interview
    from dojo.verdict import Verdict


def main(args: argparse.Namespace) -> int:
    """Hold a bug hunt; returns 0 when it is solved."""
    if args.resume is not None:
        return mock.hold(mock.resumed("hunt", args.resume), args, answer)
    seed = secrets.randbelow(2**31) if args.seed is None else args.seed
    rng = random.Random(seed)
    if args.random:
        katas = [rng.choice(list(catalog.katas().values()))]
    elif args.names:
        katas = catalog.select(args.names)
    else:
        raise Trouble("name a kata, as in `nox -s hunt -- mha`, or let chance pick: `nox -s hunt -- --random`")
    sources, planted = {}, {}
    for kata in katas:
        bugs = pick(bugs_of(kata), build.read_text(kata.master), args.bugs, rng)
        sources[kata.name] = hidden(kata, bugs)
        planted[kata.name] = [bug.name for bug in bugs]
    seconds = 60.0 * (args.minutes or sum(max(5, kata.minutes // 2) for kata in katas))
    held = interview.begin("hunt", katas, seconds, sources)
    held.planted = planted
    held.save()
    count = f"{args.bugs} bugs are" if args.bugs > 1 else "One bug is"
    print(f"{count} planted in each file; solved when all tiers pass. Seed {seed} plants the same again.")
    return mock.hold(held, args, answer)


def bugs_of(kata: Kata) -> list[Bug]:
    """The table of known bugs of a kata's grader."""
    return catalog.load(kata.grader).BUGS


def pick(bugs: list[Bug], master: str, count: int, rng: random.Random) -> list[Bug]:
    """Bugs on different lines of the master, which can be planted together. Raises Trouble when there are too few."""
    chosen: list[Bug] = []
    text, lines = master, set()
    for bug in rng.sample(bugs, len(bugs)):
        line = master[: master.find(bug.old)].count("\n")
        if len(chosen) == count:
            break
        if line in lines or text.count(bug.old) != 1:
            continue
        text = bug.plant(text)
        lines.add(line)
        chosen.append(bug)
    if len(chosen) < count:
        raise Trouble(f"{len(chosen)} bugs can be planted together here, not {count}: ask for fewer")
    return chosen


def hidden(kata: Kata, bugs: list[Bug]) -> str:
    """The solution with these bugs in it, written anew: no comment and no odd spacing gives a place away."""
    text = build.read_text(kata.master)
    for bug in bugs:
        text = bug.plant(text)
    tree = ast.parse(build.solution_code(text))
    pieces = [ast.unparse(node) for node in tree.body]
    blocks = (ast.FunctionDef, ast.ClassDef)
    body = pieces[0]
    for node, before, piece in zip(tree.body[1:], tree.body, pieces[1:], strict=False):
        body += ("\n\n\n" if isinstance(node, blocks) or isinstance(before, blocks) else "\n") + piece
    return f"# {kata.title}: somewhere in here is a mistake. `nox -s grade` says what is wrong, not where.\n{body}\n"


def answer(held: Interview, final: dict[str, Verdict]) -> None:
    """Print what was planted and why it is a mistake."""
    for name in held.katas:
        kata = catalog.katas()[name]
        known = {bug.name: bug for bug in bugs_of(kata)}
        passed = name in final and final[name].verdict == "passed"
        took = next((e.at for e in held.events if e.kata == name and e.verdict == "passed"), None)
        print(f"{kata.title} ({name}): {'solved in ' + mock.clock(took) if passed else 'not solved'}")
        for planted in held.planted.get(name, []):
            bug = known.get(planted)
            print(f"  planted: {planted}" + (f" — {bug.why}" if bug else ""))
            if bug:
                print(f"    right   {bug.old.strip()}")
                print(f"    planted {bug.new.strip()}")
        print()
