"""`hunt`: a timed session with a solution that has known bugs planted in it, to be found and mended."""

from __future__ import annotations

import argparse
import difflib
import random
import shutil
import sys
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from dojo.content import catalog, proofs
from dojo.content.catalog import Kata, Trouble, typed
from dojo.content.master import read_text
from dojo.grading.options import fresh_seed, read
from dojo.practice import history, progress
from dojo.practice.database import Unreadable
from dojo.practice.hunt import assistant, planting, refactoring, with_test
from dojo.practice.hunt.planting import Wish, bugs_named, planted, program
from dojo.practice.interview import mock, timed_session
from dojo.practice.interview.runner import TerminalDesk
from dojo.practice.interview.status_line import clock
from dojo.verdict.screen.text import filled, told_while

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dojo.content.rows import Row
    from dojo.judge.fork_server import ForkServer
    from dojo.practice.interview.timed_session import TimedSession
    from dojo.verdict.types import Verdict


def main(args: argparse.Namespace) -> int:
    """Hold a bug hunt; returns 0 when it is solved."""
    desk = TerminalDesk(recorded=not args.no_record)
    if args.resume is not None:
        held = mock.resumed("hunt", args.resume)
        return assistant.hold(held, desk, assistant.tell) if held.change else mock.hold(held, desk, answer)
    seed = fresh_seed(args.seed)
    if args.random and args.assistant:
        katas = [refactoring.by_chance(refactoring.refactored, seed)]
    elif args.random:
        katas = [random.Random(seed).choice(list(catalog.katas().values()))]
    elif args.names:
        katas = catalog.select(args.names)
    else:
        raise Trouble(f"name a kata, as in `{typed('hunt mha')}`, or let chance pick: `{typed('hunt --random')}`")
    if not args.yes and not may_see(katas):
        print("nothing was planted")
        return 1
    from dojo.grading.resident import ResidentGrader

    # In a hunt the name of the mistake is the answer.
    grader = ResidentGrader(fresh_seed(), diagnose=False)
    try:
        if args.assistant:
            held = begin_in_patch(katas, seed, args, grader.server)
            print(filled(f"Seed {seed} makes the same patch again.", sys.stdout))
            if args.prepare:
                grader.close()
                return timed_session.prepared(held.folder)
            return assistant.hold(held, desk, assistant.tell, grader)
        wishes = [Wish(kata.name, args.bugs or with_test.usual(kata), seed, args.crashes) for kata in katas]
        held = begin(katas, wishes, args.minutes, grader.server, args.with_test)
    except BaseException:
        grader.close()
        raise
    numbers = [str(number) for number in sorted({wish.bugs for wish in wishes})]
    count = "One bug is" if numbers == ["1"] else f"{' or '.join(numbers)} bugs are"
    lines = f"{count} planted in each file; solved when all tiers pass. Seed {seed} plants the same again."
    print(filled(lines, sys.stdout))
    if tests := tests_to_write(held):
        print(tests)
    if args.prepare:
        grader.close()
        return timed_session.prepared(held.folder)
    return mock.hold(held, desk, answer, grader)


def begin_in_patch(katas: list[Kata], seed: int, args: argparse.Namespace, server: ForkServer) -> TimedSession:
    """Make an assistant's patch of the one kata that is named. Raises Trouble."""
    if len(katas) > 1:
        raise Trouble(f"an assistant's patch is of one kata, and these are {len(katas)}: name one")
    with told_while("patching, and checking what shows …"):
        return assistant.begin(katas[0], seed, args.minutes, server, args.with_test)


def tests_to_write(held: TimedSession) -> str:
    """What is said of the files that end in the stub of a test; nothing where none does."""
    files = [f"{name}.py" for name in held.katas if held.mutants.get(name)]
    where = " and ".join(filter(None, [", ".join(files[:-1]), *files[-1:]]))
    what = "The test at the end of {} is yours to write: it accepts what is right, and rejects what is not."
    return what.format(where) if files else ""


def may_see(katas: list[Kata], kind: str = "hunt") -> bool:
    """Whether the user wants to see the solutions of those of the katas that have not passed. Raises Trouble."""
    what = handed_over(katas, kind)
    if not what:
        return True
    if not sys.stdin.isatty():
        raise Trouble(f"{what}: say `--yes` where nobody can be asked. Nothing was planted.")
    try:
        text = input(filled(f"{what[0].upper()}{what[1:]}. Go on? [y/N]", sys.stdout) + " ")
    except EOFError:
        text = ""
    return text.strip().lower() in ("y", "yes")


def handed_over(katas: list[Kata], kind: str) -> str:
    """What a hunt gives away of katas that have not passed, in a sentence without its dot; nothing if all have."""
    try:
        found = progress.standings(katas)
        hidden = [kata.name for kata in katas if not found[kata.name].passed]
        why = f"you have not passed {', '.join(hidden)} yet"
    except Unreadable as unreadable:
        hidden = [kata.name for kata in katas]
        why = f"whether you have passed {', '.join(hidden)} is not known ({unreadable})"
    return f"{why}, and a {kind} hands over the solution{'s' * (len(hidden) > 1)}, bugs and all" if hidden else ""


def begin(
    katas: list[Kata], wishes: list[Wish], minutes: float | None, server: ForkServer, tests: bool
) -> TimedSession:
    """Plant bugs in every kata's solution, and begin a session with what that gives. Raises Trouble."""
    asked = {kata.name for kata in katas if tests or with_test.asks(kata)}
    with told_while("planting, and checking that every bug shows …"):
        mistakes = {
            wish.kata: with_test.mistakes_for(kata, wish.seed, wish.bugs, server)
            for kata, wish in zip(katas, wishes, strict=True)
            if kata.name in asked
        }
        wishes = [replace(wish, among=tuple(mistakes.get(wish.kata, ()))) for wish in wishes]
        found = planting.choose_for_all(wishes, server)
    sources = {}
    for kata, wish, names in zip(katas, wishes, found, strict=True):
        if len(names) < wish.bugs:
            raise Trouble(f"{kata.name} has no room for {wish.bugs} bugs that do not hide each other: ask for fewer")
        head = f"# {kata.title}, with {'a bug' if wish.bugs == 1 else f'{wish.bugs} bugs'} in it.\n\n"
        sources[kata.name] = head + program(planted(read_text(kata.master), bugs_named(kata, names)))
        if kata.name in asked:
            sources[kata.name] = with_test.with_stub(kata, sources[kata.name])
    seconds = 60.0 * (minutes or sum(max(5, kata.minutes // 2) for kata in katas))
    chosen = dict(zip(sources, found, strict=True))
    mutants = {
        name: [each for each in mistakes.get(name, ()) if each not in names][: with_test.MUTANTS]
        for name, names in chosen.items()
    }
    return timed_session.begin("hunt", katas, seconds, sources, planted=chosen, mutants=mutants)


def answer(rounds: Sequence[TimedSession], final: dict[str, Verdict]) -> None:
    """Print what was planted, why it is a mistake, and how much the user has changed."""
    from dojo.verdict.screen.terminal import Screen

    (held,), screen = rounds, Screen(sys.stdout)
    for verdict in final.values():
        screen.failures(verdict)
    for name in held.katas:
        print(f"{catalog.katas()[name].title} ({name}): {outcome(held, name, final.get(name))}")
        for each, bug in bugs_of(held, name).items():
            text = f"planted: {each}" + (f" — {bug.why}" if bug else "")
            width = min(120, shutil.get_terminal_size().columns if sys.stdout.isatty() else 120)
            print("\n" + textwrap.fill(text, width, initial_indent="  ", subsequent_indent="  "))
            if bug:
                history.print_difference(mended(catalog.katas()[name], bug))
        print("\n" + "\n".join(f"  {line}" for line in fix(held, name, final.get(name))) + "\n")


def outcome(held: TimedSession, name: str, last: Verdict | None) -> str:
    """Whether a kata of a hunt was solved, and when."""
    took = next((e.at for e in held.events if e.kata == name and e.verdict == "passed"), None)
    return f"solved in {clock(took)}" if last and last.verdict == "passed" else "not solved"


def bugs_of(held: TimedSession, name: str) -> dict[str, Row | None]:
    """The bugs that were planted, by name; None of one that the kata has no more."""
    known = {bug.name: bug for bug in proofs.bugs(catalog.katas()[name])}
    return {each: known.get(each) for each in held.planted.get(name, [])}


def fix(held: TimedSession, name: str, last: Verdict | None) -> list[str]:
    """What is said of the user's fix, and of the test where one was asked for."""
    return with_test.report(last) if held.mutants.get(name) else [changed(held, name)]


def mended(kata: Kata, bug: Row) -> list[str]:
    """The diff that takes a bug out of the kata's solution: the planted lines, and the right ones."""
    text = read_text(kata.master)
    wrong, right = (program(each).splitlines() for each in (bug.plant(text), text))
    lines = list(difflib.unified_diff(wrong, right, lineterm="", n=0))[2:]
    return [line for line in lines if not line.startswith("@@")]


def changed(held: TimedSession, name: str) -> str:
    """How many lines the user's file has lost and gained since it was handed out; blank ones do not count."""
    try:
        sources = held.handed_out[name], read(held.path(name))
    except (KeyError, Trouble):
        return "your fix: not known"
    before, after = ([line.rstrip() for line in text.splitlines() if line.strip()] for text in sources)
    signs = [line[0] for line in difflib.ndiff(before, after)]
    out, new = signs.count("-"), signs.count("+")
    return f"your fix: {out} line{'s' * (out != 1)} out, {new} in" if out or new else "your fix: none"
