"""`mock`: a mock interview, which is a timed session with fresh stubs and a scorecard."""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.content import catalog, master
from dojo.content.catalog import Kata, Trouble, typed
from dojo.grading.options import fresh_seed, read
from dojo.practice import history, progress
from dojo.practice.database import Unreadable
from dojo.practice.interview import timed_session
from dojo.practice.interview.timed_session import End, Runner, TimedSession
from dojo.verdict.types import state_of

if TYPE_CHECKING:
    from dojo.grading.resident import ResidentGrader
    from dojo.verdict.types import Verdict


def main(args: argparse.Namespace) -> int:
    """Hold a mock interview; returns 0 when everything passed."""
    if args.explain:
        return explain(args)
    if args.resume is not None:
        held = resumed("mock", args.resume)
    else:
        katas = chosen(args)
        minutes = args.minutes or sum(kata.minutes for kata in katas)
        held = timed_session.begin("mock", katas, 60.0 * minutes, {kata.name: master.stub_text(kata) for kata in katas})
    return hold(held, args, scorecard)


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


def resumed(kind: str, word: str) -> TimedSession:
    """The session in the folder that the word names, or the last one that was cut off."""
    if word:
        found = timed_session.load(Path(word))
        if found.end is not End.OPEN:
            raise Trouble(f"{word} is over: {found.end}. `{typed(kind)}` begins another one.")
        return found
    for path in sorted((catalog.ROOT / f"{kind}s").glob(f"*/{timed_session.STATE}"), reverse=True):
        with contextlib.suppress(Trouble):
            found = timed_session.load(path.parent)
            if found.end is End.OPEN and found.left > 0:
                return found
    raise Trouble(f"no {kind} was cut off. `{typed(f'{kind} NAME')}` begins one.")


def hold(
    held: TimedSession,
    args: argparse.Namespace,
    conclude: Callable[[TimedSession, dict[str, Verdict]], None],
    started: ResidentGrader | None = None,
) -> int:
    """Say what is asked, hold the session, grade once more, and conclude; with a grader that has started, if any."""
    from dojo.grading.resident import ResidentGrader
    from dojo.verdict.screen.terminal import Screen

    screen, known = Screen(sys.stdout), catalog.katas()
    for name in held.katas:
        kata = known[name]
        print(f"\n{kata.title}: {held.asks(name)} {kata.say(held.path(name))}\n", flush=True)
        screen.markdown(master.statement(kata))
    # In a hunt the name of the mistake is the answer.
    with started or ResidentGrader(fresh_seed(), diagnose=held.kind != "hunt") as grader:
        runner = Runner(held, grader, screen)
        print(f"\n{minutes(held.left)} from now. Every save is graded. {timed_session.KEYS}\n", flush=True)
        end = timed_session.hold(runner)
        if end is End.OPEN:
            folder = known[held.katas[0]].say(held.folder)
            print(f"interrupted with {minutes(held.left)} left: `{typed(f'{held.kind} --resume {folder}')}` goes on.")
            return 1
        print(f"\n{end}. The last saved files, graded once more with fresh inputs:\n", flush=True)
        final = grade_once_more(runner)
    for verdict in final.values():
        screen.failures(verdict)
    if not args.no_record:
        for name, verdict in final.items():
            green = next((e.at for e in held.events if e.kata == name and e.verdict == "passed"), held.spent)
            history.record(
                [(known[name], read(held.path(name)), verdict)],
                kind=held.kind,
                spent=green,
                hints=held.hints.get(name, 0),
            )
    conclude(held, final)
    return 0 if final and all(verdict.verdict == "passed" for verdict in final.values()) else 1


def grade_once_more(runner: Runner) -> dict[str, Verdict]:
    """The last saved attempts with fresh inputs: what the scorecard rests on."""
    final = {}
    for name in runner.session.katas:
        try:
            entry = runner.entry(name)
        except Trouble as trouble:
            print(f"dojo: {trouble}")
            continue
        final[name] = runner.grader.grade(entry, replace(runner.grader.options, seed=fresh_seed()))
    return final


def scorecard(held: TimedSession, final: dict[str, Verdict]) -> None:
    """Print how each kata went: times to green, saves, hints, what failed longest, and the comparison with par."""
    for name in held.katas:
        kata, events = catalog.katas()[name], [event for event in held.events if event.kata == name]
        first = next((e.at for e in events if e.passed), None)
        core = next((e.at for e in events if e.tiers.get("core") == "passed"), None)
        whole = next((e.at for e in events if e.verdict == "passed"), None)
        print(f"{kata.title} ({name})")
        last = final.get(name)
        print(f"  verdict            {state_of(last.verdict, last.tiers) if last else 'no file'}")
        print(f"  first green check  {clock(first)}")
        print(f"  core               {clock(core)}")
        print(f"  everything         {clock(whole)}{compared(whole, kata)}")
        print(f"  gradings           {len(events)}")
        print(f"  hints              {held.hints.get(name, 0)} of {len(master.hints(kata))}")
        longest = failed_longest(events, held.spent)
        if longest:
            print(f"  failed longest     {longest[0]}, {clock(longest[1])}")
        with contextlib.suppress(Unreadable):
            print(f"  stands now         {progress.standings([kata])[name].state}")
        print()
    print(f"`{typed(' '.join(['mock', *held.katas, '--explain']))}` lists what an interviewer asks next.")


def failed_longest(events: list[timed_session.Event], end: float) -> tuple[str, float] | None:
    """The check that was red for the longest time, and for how long."""
    from dojo.verdict.screen.text import readable

    red: dict[str, float] = {}
    for event, until in zip(events, [*(e.at for e in events[1:]), end], strict=False):
        for check in event.failing:
            red[check] = red.get(check, 0.0) + until - event.at
    if not red:
        return None
    name, seconds = max(red.items(), key=lambda item: item[1])
    return readable(name), seconds


def explain(args: argparse.Namespace) -> int:
    """Print what an interviewer asks next about these katas."""
    from dojo.verdict.screen.terminal import Screen

    if not args.names:
        raise Trouble(f"name a kata, as in `{typed('mock rope --explain')}`")
    for kata in catalog.select(args.names):
        print(f"{kata.title}\n", flush=True)
        Screen(sys.stdout).markdown(master.questions(kata))
        print(flush=True)
    return 0


def compared(seconds: float | None, kata: Kata) -> str:
    """How a time stands to the kata's par."""
    if seconds is None:
        return f" (par {kata.minutes} min)"
    return f", {seconds / 60 / kata.minutes:.0%} of par ({kata.minutes} min)"


def clock(seconds: float | None) -> str:
    """Minutes and seconds."""
    return "not reached" if seconds is None else f"{int(seconds // 60)}:{int(seconds % 60):02d}"


def minutes(seconds: float) -> str:
    """A span in words."""
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"
