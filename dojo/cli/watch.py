"""`watch`: grade on every save."""

from __future__ import annotations

import argparse
import sys
import time

from dojo.cli.selection import selected_one
from dojo.content import sync, watcher
from dojo.content.catalog import Trouble, typed
from dojo.grading.options import Entry, fresh_seed
from dojo.practice import history, progress


def main(args: argparse.Namespace) -> int:
    """Grade a kata's stub now and on every save, until Ctrl-C; returns 0 if the last verdict was a pass."""
    kata = selected_one(args.name)
    from dojo.grading.resident import ResidentGrader
    from dojo.verdict.screen.terminal import Screen

    if not kata.stub.exists():
        print(sync.sync(kata), file=sys.stderr)
    screen, saves, seed = Screen(sys.stdout), watcher.Saves(kata.stub), fresh_seed(args.seed)
    stub = kata.say(kata.stub)
    print(f"{stub} is graded on every save; Ctrl-C ends it. Inputs stay the same, seed {seed}.", flush=True)
    verdict = None
    with ResidentGrader(seed) as grader:
        try:
            grader.prepare(kata)
            while True:
                time.sleep(watcher.TICK)
                if saves.new() is None:
                    continue
                started = time.perf_counter()
                try:
                    entry = Entry.of_stub(kata)
                except Trouble as trouble:
                    print(f"dojo: {trouble}", file=sys.stderr, flush=True)
                    continue
                verdict = grader.grade(entry)
                verdict.help = progress.aid(kata, entry.source).words
                screen.verdict(verdict)
                seconds = time.perf_counter() - started + watcher.CALM
                print(f"{time.strftime('%H:%M:%S')} · {seconds:.2f} s after the save", flush=True)
                if verdict.verdict != "empty" and not args.no_record:
                    history.record([(kata, entry.source, verdict)])
        except KeyboardInterrupt:
            print()
    if verdict is not None and verdict.verdict == "passed":
        print(f"Passed with seed {seed}. `{typed(f'grade {kata.name}')}` confirms it with fresh inputs.")
        return 0
    return 1
