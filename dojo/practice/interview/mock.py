"""`mock`: a mock interview: code against the clock, questions, a scorecard; with `--track` a loop of several rounds."""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dojo.content import catalog, master, stages
from dojo.content.catalog import Kata, Trouble, typed
from dojo.grading.options import fresh_seed, read
from dojo.practice import database, history, progress
from dojo.practice.database import HINT, Help
from dojo.practice.interview import inquiries, ladder, questions, scorecard, stage_card, timed_session
from dojo.practice.interview.runner import TerminalDesk
from dojo.practice.interview.session_loop import SessionLoop
from dojo.practice.interview.status_line import spoken
from dojo.practice.interview.timed_session import End, TimedSession
from dojo.verdict.screen.text import encodable, filled
from dojo.verdict.types import PASSED, SOLVED

if TYPE_CHECKING:
    from dojo.practice.interview.session_loop import Desk, Grader
    from dojo.verdict.types import Verdict

Conclude = Callable[[Sequence[TimedSession], "dict[str, Verdict]"], None]  # tells how it went
LOOP_MINUTES = 60.0
TRIES, FULL = 200, 0.9  # ways of filling the minutes of a loop; one is taken that is nearly as full as the fullest


def main(args: argparse.Namespace) -> int:
    """Hold a mock interview; returns 0 when everything passed."""
    if args.explain:
        return explain(args)
    desk = TerminalDesk(recorded=not args.no_record)
    if args.resume is not None:
        return hold_rounds(rounds_to_resume(args.resume), desk, conclude)
    if args.track:
        minutes = args.minutes or LOOP_MINUTES
        katas = loop(args.track, minutes, args.level, args.seed)
        folder = timed_session.new_folder("mock", katas)
        shares = {kata: 60.0 * minutes * kata.minutes / total(katas) for kata in katas}
        rounds = [
            begin([kata], seconds, args, folder / f"{number}-{kata.name}")
            for number, (kata, seconds) in enumerate(shares.items(), 1)
        ]
        if args.prepare:
            return timed_session.prepared(folder)
        count = "One round" if len(katas) == 1 else f"{len(katas)} rounds"
        print(f"{count}, {spoken(60.0 * minutes)} of code in all; no clock runs in questions and breaks:")
        print("".join(f"\n  {number}. {kata.title}, {spoken(shares[kata])}" for number, kata in enumerate(katas, 1)))
        return hold_rounds(rounds, desk, conclude)
    katas = chosen(args)
    held = begin(katas, 60.0 * (args.minutes or total(katas)), args)
    return timed_session.prepared(held.folder) if args.prepare else hold_rounds([held], desk, conclude)


def begin(katas: list[Kata], seconds: float, args: argparse.Namespace, folder: Path | None = None) -> TimedSession:
    """A session with fresh stubs; in an interview, and where there are stages, without the contract."""
    stubs = {kata.name: master.stub_text(kata) for kata in katas}
    staged = stages.of(katas[0]) if len(katas) == 1 else ()
    if staged and katas[0].opens_with:
        print("planting bugs, and checking that each of them shows …", flush=True)
        stubs[katas[0].name] = ladder.drawn(katas[0], fresh_seed(args.seed))
    if staged or args.real:
        stubs = {name: ladder.bare(text) for name, text in stubs.items()}
    more: dict[str, Any] = {"stages": len(staged), "stage": 1, "opened": {"1": 0.0}} if staged else {}
    silent = args.silent or args.real
    return timed_session.begin("mock", katas, seconds, stubs, folder, silent=silent, real=args.real, **more)


def chosen(args: argparse.Namespace) -> list[Kata]:
    """The katas that the words name, or that chance picks."""
    if not args.random:
        if not args.names:
            raise Trouble(f"name a kata or a track, as in `{typed('mock rope')}`, or let chance pick: `--random 2`")
        return catalog.select(args.names)
    pool = catalog.select(args.names) if args.names else list(catalog.katas().values())
    pool = [kata for kata in pool if args.level in (None, kata.level)]
    if len(pool) < args.random:
        level = f" of level {args.level}" if args.level else ""
        raise Trouble(f"there are {len(pool)} katas{level} to choose from, fewer than {args.random}")
    return random.Random(args.seed).sample(pool, args.random)


def loop(track: str, minutes: float, level: int | None = None, seed: int | None = None) -> list[Kata]:
    """Katas of a track, in the order of learning, chosen by chance, whose pars fill the minutes."""
    if track not in (*catalog.TRACKS, "all"):
        raise Trouble(
            f"'{track}' is no track: there are {', '.join(catalog.TRACKS)}, and all of them together as `all`"
        )
    pool = [kata for kata in catalog.select([track]) if level in (None, kata.level)]
    rng, tries = random.Random(seed), list[list[Kata]]()
    for _ in range(TRIES):
        tries.append([])
        for kata in rng.sample(pool, len(pool)):
            if total([*tries[-1], kata]) <= minutes:
                tries[-1].append(kata)
    tries = [katas for katas in tries if len(katas) > 1] or tries  # a loop has rounds, where there is time for them
    fullest = max(map(total, tries))
    best = rng.choice([katas for katas in tries if total(katas) >= FULL * fullest])
    if not best:
        shortest = min(pool, key=lambda kata: kata.minutes, default=None)
        why = f"the shortest, {shortest.name}, takes {shortest.minutes}" if shortest else f"none is of level {level}"
        raise Trouble(f"no kata of {track} fits into {minutes:g} minutes: {why}")
    return sorted(best, key=pool.index)


def total(katas: Sequence[Kata]) -> int:
    """Their pars together, in minutes."""
    return sum(kata.minutes for kata in katas)


def resumed(kind: str, word: str) -> TimedSession:
    """The session in the folder that the word names, or the last one that was cut off."""
    if word:
        found = timed_session.load(Path(word))
        if found.end is not End.OPEN and not found.unanswered:
            raise Trouble(f"{word} is over: {found.end}. `{typed(kind)}` begins another one.")
        return found
    folder = catalog.ROOT / f"{kind}s"
    states = [path for pattern in ("*", "*/*") for path in folder.glob(f"{pattern}/{timed_session.STATE}")]
    for path in sorted(states, reverse=True):
        with contextlib.suppress(Trouble):
            found = timed_session.load(path.parent)
            if (found.end is End.OPEN and found.left > 0) or found.unanswered:
                return found
    raise Trouble(f"no {kind} was cut off. `{typed(f'{kind} NAME')}` begins one.")


def rounds_to_resume(word: str) -> list[TimedSession]:
    """The rounds of the mock that the word names, or of the last one that was cut off."""
    paths = sorted(Path(word).glob(f"*/{timed_session.STATE}")) if word else []
    if not paths:
        found = resumed("mock", word)
        above = found.folder.absolute().parent
        if above.name == "mocks":
            return [found]
        paths = sorted(above.glob(f"*/{timed_session.STATE}"))
    rounds = [timed_session.load(path.parent) for path in paths]
    if all(held.concluded for held in rounds):
        raise Trouble(f"{word} is over. `{typed('mock')}` begins another one.")
    return rounds


def hold_rounds(rounds: Sequence[TimedSession], desk: Desk, conclude: Conclude) -> int:
    """Hold what is left of a mock, round by round, then tell the verdicts and the scorecards."""
    final: dict[str, Verdict] = {}
    with timed_session.alone(rounds[0]), desk.grader() as grader:
        for number, held in enumerate(rounds, 1):
            if held.end is End.OPEN:
                if final and not desk.rest(number, rounds):
                    return desk.cut_off(rounds, held)
                verdicts = write_code(held, desk, grader)
                if verdicts is None:
                    return desk.cut_off(rounds, held)
                final |= verdicts
            questions.after_the_code(held, desk)
        for held in rounds:  # some may have been held before this mock was resumed
            final |= grade_once_more(held, grader, [name for name in held.katas if name not in final], desk.say)
        conclude(rounds, final)
        for held in rounds:
            held.concluded = True
            held.save()
    return 0 if final and all(verdict.verdict == "passed" for verdict in final.values()) else 1


def conclude(rounds: Sequence[TimedSession], final: dict[str, Verdict]) -> None:
    """Print the verdicts, the scorecards and the answers of a mock."""
    from dojo.verdict.screen.terminal import Screen

    screen = Screen(sys.stdout)
    for held in rounds:
        for verdict in (final[name] for name in held.katas if name in final):
            screen.verdict(verdict) if held.silent else screen.failures(verdict)
    for held in rounds:
        if staged := ladder.of(held):
            print(encodable("\n".join(stage_card.card(held, staged, final.get(staged.name))) + "\n", sys.stdout))
        else:
            scorecard.show(held, final)
        questions.show_answers(held, screen)
    asked = [name for held in rounds for name in held.katas]
    again, upcoming = typed(" ".join(["quiz", *asked])), typed("next")
    print(filled(f"`{again}` asks the questions again; `{upcoming}` says when they are due.", sys.stdout))


def hold(
    held: TimedSession, desk: Desk, conclude: Conclude, started: AbstractContextManager[Grader] | None = None
) -> int:
    """Hold a hunt, with a grader that has started if there is one: ask, run the clock, grade once more, conclude."""
    if desk.recorded:
        for name in held.katas:  # a hunt hands over the solution
            progress.note_solution(catalog.katas()[name])
    # In a hunt the name of the mistake is the answer.
    with started or desk.grader(diagnose=False) as grader, timed_session.alone(held):
        final = write_code(held, desk, grader)
        if final is None:
            return desk.cut_off([held], held)
        conclude([held], final)
        held.concluded = True
        held.save()
    return 0 if final and all(verdict.verdict == "passed" for verdict in final.values()) else 1


def write_code(held: TimedSession, desk: Desk, grader: Grader) -> dict[str, Verdict] | None:
    """Say what is asked, run the clock, grade once more and record it; None when it was interrupted."""
    if held.change is None and (staged := ladder.of(held)):
        ladder.caught_up(held, staged)
    desk.hand_out(held)
    end = desk.run(SessionLoop(held, grader, desk))
    if desk.recorded:
        taken = [(name, number) for name, count in held.hints.items() for number in range(1, count + 1)]
        database.note(helps=[Help(time.time(), name, HINT, number) for name, number in taken])
    if end is End.OPEN:
        return None
    return grade_and_record(held, desk, grader)


def grade_and_record(held: TimedSession, desk: Desk, grader: Grader) -> dict[str, Verdict]:
    """Grade what was saved last once more, and record it: of a judged change as solved if it was judged rightly."""
    desk.over(held, "it is right" if held.kind == timed_session.DRILL and held.end is End.SOLVED else held.end)
    final = grade_once_more(held, grader, held.katas, desk.say)
    for name, verdict in final.items():
        if verdict.verdict != "empty":
            held.note(name, verdict, held.spent)
    held.save()
    if desk.recorded:
        for name, verdict in final.items():
            solving = (PASSED,) if held.kind == "hunt" else SOLVED  # a bug may leave the core tier whole
            solved = scorecard.first((e for e in held.events if e.kata == name), solving)
            spent = held.spent if solved is None else solved
            kept = verdict if held.judged_rightly else replace(verdict, verdict="failed")
            graded = (catalog.katas()[name], read(held.path(name)), kept)
            history.record([graded], kind=held.kind, spent=spent, aid=scorecard.aid(held, catalog.katas()[name]))
    return final


def grade_once_more(
    held: TimedSession, grader: Grader, names: Sequence[str], say: Callable[[str], None]
) -> dict[str, Verdict]:
    """The last saved attempts with fresh inputs: what the scorecard rests on."""
    final = {}
    for name in names:
        try:
            entry = held.entry(name)
        except Trouble as trouble:
            say(f"dojo: {trouble}")
            continue
        stage = held.stage or None
        final[name] = grader.grade(entry, replace(grader.options, seed=fresh_seed(), stage=stage))
        final[name].help = scorecard.aid(held, catalog.katas()[name]).words
    return final


def ask(question: str, folder: Path | None) -> int:
    """Ask the interviewer of a mock that runs in another terminal, and print the answer."""
    from dojo.verdict.screen.terminal import Screen

    held = timed_session.load(folder) if folder else inquiries.running()
    if not held.can_ask:
        raise Trouble(
            f"the contract is in the file: nobody need be asked. `{typed('mock NAME --real')}` hands out none"
        )
    Screen(sys.stdout).markdown(inquiries.ask(held, question))
    return 0


def explain(args: argparse.Namespace) -> int:
    """Print what an interviewer asks next about these katas."""
    from dojo.verdict.screen.terminal import Screen

    if not args.names:
        raise Trouble(f"name a kata, as in `{typed('mock rope --explain')}`")
    for kata in catalog.select(args.names):
        print(f"{kata.title}\n", flush=True)
        Screen(sys.stdout).markdown(master.follow_ups(kata))
        print(flush=True)
    return 0
