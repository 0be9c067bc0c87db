"""`watch`: grade on every save."""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from dojo import catalog, grade, sync, warm
from dojo.catalog import Kata, Trouble


def main(args: argparse.Namespace) -> int:
    """Grade a kata's stub now and on every save, until Ctrl-C; returns 0 if the last verdict was a pass."""
    from dojo.screen import Screen

    kata = catalog.one(args.name)
    if not kata.stub.exists():
        print(sync.sync(kata) or "", file=sys.stderr)
    screen, saves = Screen(sys.stdout), warm.Saves(kata.stub)
    seed = secrets.randbelow(2**31) if args.seed is None else args.seed
    print(
        f"{kata.say(kata.stub)} is graded on every save; Ctrl-C ends it. Inputs stay the same, seed {seed}.", flush=True
    )
    verdict = None
    with warm.Judge(seed) as judge:
        try:
            judge.prepare(kata)
            while True:
                time.sleep(warm.TICK)
                content = saves.new()
                if content is None:
                    continue
                started = time.perf_counter()
                try:
                    entry = entry_of(kata)
                except Trouble as trouble:
                    print(f"dojo: {trouble}", file=sys.stderr, flush=True)
                    continue
                verdict = judge.grade(entry)
                screen.verdict(verdict)
                print(f"{time.strftime('%H:%M:%S')} · {time.perf_counter() - started + warm.CALM:.2f} s after the save")
                sys.stdout.flush()
                if verdict.verdict != "empty" and not args.no_record:
                    grade.record([(kata, entry.source, verdict)])
        except KeyboardInterrupt:
            print()
    if verdict is not None and verdict.verdict == "passed":
        print(f"Passed with seed {seed}. `nox -s grade -- {kata.name}` confirms it with fresh inputs.")
        return 0
    return 1


def entry_of(kata: Kata) -> grade.Entry:
    """The user's own attempt at a kata, as it is on disk now."""
    return grade.Entry(kata, grade.read(kata.stub), kata.say(kata.stub), f"nox -s grade -- {kata.name}")
