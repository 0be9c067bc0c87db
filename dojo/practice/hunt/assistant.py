"""A hunt in an assistant's patch: a right program is refactored, and two bugs may have come with it.

The patch is read first, accepted or rejected; who rejects mends the program, graded on every save.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from dojo.content import catalog, master, proofs
from dojo.content.catalog import Kata, Trouble
from dojo.practice import progress
from dojo.practice.hunt import findings, reading, refactoring, with_test
from dojo.practice.hunt.planting import Wish, bugs_named, choose, planted, program
from dojo.practice.hunt.reading import ACCEPT, REJECT
from dojo.practice.interview import mock, timed_session
from dojo.practice.interview.status_line import clock
from dojo.practice.interview.timed_session import Change, End, TimedSession

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from dojo.judge.fork_server import ForkServer
    from dojo.practice.interview.mock import Conclude
    from dojo.practice.interview.session_loop import Desk, Grader
    from dojo.verdict.types import Verdict

WORDS = (ACCEPT, REJECT)
WITHOUT = 1 / 3  # of the patches have no bug
TEST = "The test at its end is yours to write if you reject: it accepts what is right, and rejects what is not."
ABOUT = "An assistant has refactored a right program, with bugs or without; the file with its patch is {place}."
ENDS = "`accept` merges it. `reject` it after a remark, and you mend the file; nothing is graded before that."


def begin(kata: Kata, seed: int, minutes: float | None, server: ForkServer, tests: bool) -> TimedSession:
    """Refactor the kata's solution, plant bugs or none, and begin a session with it. Raises Trouble."""
    tests_of = with_test.mistakes_for(kata, seed, refactoring.BUGS, server) if tests else []
    wish = Wish(kata.name, refactoring.BUGS, seed, among=tuple(tests_of))
    right, names = patched(kata, wish, server)
    sources = {kata.name: program(planted(right, bugs_named(kata, names)))}
    before = program(master.read_text(kata.master))
    if tests:
        before, sources[kata.name] = (with_test.with_stub(kata, each) for each in (before, sources[kata.name]))
    # With nothing planted there is nothing that a test could reject.
    mutants = {kata.name: [each for each in tests_of if each not in names][: with_test.MUTANTS] if names else []}
    change, seconds = Change(before, right), 60.0 * (minutes or max(5, kata.minutes // 2))
    bugs = {kata.name: names}
    held = timed_session.begin("hunt", [kata], seconds, sources, change=change, planted=bugs, mutants=mutants)
    reading.hand_out(held, WORDS)
    return held


def patched(kata: Kata, wish: Wish, server: ForkServer) -> tuple[str, list[str]]:
    """The text of a refactored right program, and the bugs to be planted into it, which may be none. Raises Trouble.

    Whether there are any is drawn last, so that the time it takes tells nothing.
    """
    rng = random.Random(f"assistant {kata.name} {wish.seed}")
    without = rng.random() < WITHOUT
    before = program(master.read_text(kata.master))
    for right in refactoring.refactored(kata, rng):
        names = choose(replace(wish, text=right), server)
        bugs = bugs_named(kata, names)
        lines = refactoring.change(before, program(planted(right, bugs)))
        if len(bugs) == wish.bugs and findings.shown(findings.standing_in(right, bugs), lines):
            return right, [] if without else names
    raise Trouble(
        f"{kata.name} is too short to be refactored with bugs in it, or has a test beside it: take a longer one, such "
        f"as mha, or hunt in it without `--assistant`"
    )


def hold(
    held: TimedSession, desk: Desk, conclude: Conclude, started: AbstractContextManager[Grader] | None = None
) -> int:
    """Hold the hunt: read and judge, mend what was rejected, grade once more, and tell what was planted."""
    change, kata = held.change, catalog.katas()[held.katas[0]]
    assert change is not None
    if desk.recorded:
        progress.note_solution(kata)
    with started or desk.grader(diagnose=False) as grader, timed_session.alone(held):
        if held.end is End.OPEN and not change.word:
            about = [ABOUT.format(place=kata.say(held.path(kata.name)))]
            about += [TEST] if proofs.has_test(held.handed_out[kata.name]) else []
            if not desk.read(reading.Reading(held, WORDS), "an assistant's patch", " ".join(about), ENDS):
                return desk.cut_off([held], held)
        final: dict[str, Verdict] | None
        if change.word == REJECT:
            final = mock.write_code(held, desk, grader)
        else:
            held.mutants = {}  # a test is written by who rejects
            final = mock.grade_and_record(held, desk, grader)
        if final is None:
            return desk.cut_off([held], held)
        conclude([held], final)
        held.concluded = True
        held.save()
    return 0 if held.judged_rightly and all(verdict.verdict == "passed" for verdict in final.values()) else 1


def tell(rounds: Sequence[TimedSession], final: dict[str, Verdict]) -> None:
    """Print the scorecard, and what was planted."""
    from dojo.verdict.screen.terminal import Screen

    (held,), screen = rounds, Screen(sys.stdout)
    for verdict in final.values():
        screen.failures(verdict)
    kata = catalog.katas()[held.katas[0]]
    last, bugs, result = final.get(kata.name), findings.of(held), found(held)
    print()
    findings.card(f"{kata.title} ({kata.name}), an assistant's patch", rows(held, last))
    if held.mutants.get(kata.name):
        for line in with_test.report(last):
            findings.say(line)
        print()
    findings.tell(bugs, result)


def found(held: TimedSession) -> findings.Findings:
    """Which remarks were about which bug."""
    return findings.matched(reading.remarks(held), findings.of(held))


def rows(held: TimedSession, last: Verdict | None) -> dict[str, str]:
    """What the scorecard says, by labels."""
    change, bugs, result, kata = held.change, findings.of(held), found(held), catalog.katas()[held.katas[0]]
    assert change is not None
    judged = {ACCEPT: "accepted", REJECT: "rejected"}.get(change.word, "no word on it")
    there = f"{len(bugs)} bugs were planted" if bugs else "nothing was planted"
    shown = {"verdict": f"{judged}, {'right' if held.judged_rightly else 'wrong'}: {there}"}
    if bugs:
        shown["bugs named"] = f"{len(result.found)} of {len(bugs)}"
    shown["false alarms"] = str(len(result.false_alarms))
    shown["mended" + " and tested" * bool(held.mutants.get(kata.name))] = mended(held, kata, last)
    took = next((event.at for event in held.events if event.verdict == "passed"), None)
    spent = [f"{clock(change.at)} to the verdict"] if change.word else []
    spent += [f"mended at {clock(took)}"] if took is not None and bugs and change.word == REJECT else []
    shown["time"] = ", ".join([*spent, f"{clock(held.spent)} of {clock(held.seconds)} in all"])
    return shown


def mended(held: TimedSession, kata: Kata, last: Verdict | None) -> str:
    """Whether the file is right at the end, and what that took."""
    from dojo.practice.hunt import bug_hunt

    if held.change is None or held.change.word != REJECT:
        return "not asked of who accepts" if held.change and held.change.word else "no"
    if not held.planted[kata.name]:
        return "there was nothing to mend"
    word = "yes" if last and last.verdict == "passed" else f"no: {last.state if last else 'no file'}"
    return f"{word}; {bug_hunt.changed(held, kata.name)}"
