"""`grade`: the verdicts on what the command line names, on the screen and in files."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.cli.selection import check_files
from dojo.content import catalog, files, sync
from dojo.content.catalog import Kata, Trouble, typed
from dojo.grading.options import Entry, Options, fresh_seed, read
from dojo.judge.fork_server import ForkServer, FreshStarts
from dojo.verdict import repro
from dojo.verdict.causes import causes
from dojo.verdict.failures import LeftDebugger
from dojo.verdict.page import github
from dojo.verdict.screen.text import filled, readable

if TYPE_CHECKING:
    from dojo.verdict.types import Verdict


def main(args: argparse.Namespace) -> int:
    """Grade what the command line names; returns the exit status: 0 passed, 1 not."""
    katas = catalog.select(args.names)
    folder = args.attempt if args.attempt is not None and args.attempt.is_dir() else None
    if folder is not None and not args.names:
        katas = [kata for kata in katas if any(map(Path.is_file, _places(folder, kata)))] or katas
    if args.attempt is not None and folder is None and len(katas) != 1:
        raise Trouble("--attempt grades one file as one kata: name that kata, as in `grade rope --attempt FILE`")
    if args.share is not None and len(katas) != 1:
        raise Trouble(f"--share makes the card of one kata, and {' '.join(args.names)} is {len(katas)} of them")
    around = []
    if args.sandbox:
        from dojo.judge import sandbox

        around = sandbox.prefix()
    if args.pdb:
        os.environ.setdefault("KINETO_LOG_LEVEL", "9")  # as workers have it: the profiler would write at every check
    # before torch, so that both import it side by side
    server: ForkServer | FreshStarts = FreshStarts(around) if args.pdb else ForkServer(around=around)
    try:
        entries = [_entry(kata, args) for kata in katas]
        from dojo.grading.parallel import side_by_side
        from dojo.verdict.screen.terminal import Screen

        device, server = _device(args.device, server, around)
        options = Options(fresh_seed(args.seed), args.tier, device, args.expression or "", debug=args.pdb)
        options = replace(options, stop_at_first=args.exitfirst or args.pdb, scripts=args.repro is not None)
        piped = str(args.json) == "-"  # what a program reads then has standard output to itself
        screen = Screen(sys.stderr if piped else sys.stdout)
        with github.without_commands(args.github):
            verdicts = side_by_side(entries, options, server, screen)
            if not any(verdict.checks or verdict.message for verdict in verdicts):
                raise Trouble(_none_chosen(katas, args))
            if not (args.attempt or args.solution):
                _say_help(entries, verdicts)
            if [verdict.verdict for verdict in verdicts] == ["empty"] and not (args.attempt or args.solution):
                from dojo.cli.katas import show_beginning

                show_beginning(katas[0])
            for verdict in verdicts:
                if len(verdicts) == 1 or args.verbose or verdict.verdict not in ("passed", "empty"):
                    screen.verdict(verdict, args.verbose)
            screen.summary(verdicts)
    except LeftDebugger:
        print("dojo: you left the debugger: nothing was judged", file=sys.stderr)
        return 1
    finally:
        server.close()
    if args.repro:
        _write_script(args, katas, verdicts)
    _write_files(args, verdicts, piped)
    if args.junit or args.github:
        _tell_ci(args, entries, verdicts)
    if _counts(args):
        _record(entries, verdicts)
        if len(verdicts) == 1 and verdicts[0].verdict == "passed":
            _moment(katas[0])
    if args.share:
        _share(katas[0], verdicts[0], args.share, _minutes(katas[0]) if _counts(args) else None)
    if not (args.attempt or args.solution):
        for kata in katas:
            sync.sync(kata, opened=True)  # after the verdict, which an edited script need not wait for
    return 0 if all(verdict.verdict == "passed" for verdict in verdicts) else 1


def _say_help(entries: list[Entry], verdicts: list[Verdict]) -> None:
    """Say in each verdict on the user's own file which help counts for it."""
    from dojo.practice import progress

    for entry, verdict in zip(entries, verdicts, strict=True):
        if verdict.verdict in ("passed", "failed"):
            verdict.help = progress.aid(entry.kata, entry.source).words


def _none_chosen(katas: list[Kata], args: argparse.Namespace) -> str:
    """What is said where the command line names no check."""
    what = katas[0].name if len(katas) == 1 else f"these {len(katas)} katas"
    fits = [f"fits -k {args.expression!r}"] if args.expression else []
    fits += [f"is of the tier {args.tier}"] if args.tier else []
    listed = f"`{typed(f'grade {katas[0].name} --verbose')}` lists them with their numbers"
    return f"no check of {what} {' and '.join(fits)}: {listed}"


def _write_files(args: argparse.Namespace, verdicts: list[Verdict], piped: bool) -> None:
    """The page and the JSON that were asked for."""
    if args.html:
        from dojo.verdict.page import html

        html.write(args.html, html.of_run(verdicts), html.title_of_run(verdicts))
        failed = any(verdict.verdict == "failed" for verdict in verdicts)
        what = "with pictures of what failed" if failed else "about this run"
        print(f"{args.html} is a page {what}", file=sys.stderr)
    if args.json:
        text = json.dumps([v.to_json() for v in verdicts], indent=1)
        if piped:
            print(text, flush=True)
        else:
            files.write_atomic(args.json, f"{text}\n")
            print(f"{args.json} holds {len(verdicts)} verdict{'s' * (len(verdicts) != 1)} as JSON", file=sys.stderr)


def _tell_ci(args: argparse.Namespace, entries: list[Entry], verdicts: list[Verdict]) -> None:
    """The verdicts in the forms that a CI reads."""
    from dojo.verdict.page import junit
    from dojo.verdict.page.findings import findings

    pairs = zip(entries, verdicts, strict=True)
    found = [finding for entry, verdict in pairs for finding in findings(verdict, entry.source)]
    if args.junit:
        files.write_atomic(args.junit, junit.of_run(verdicts).encode("utf-8", "replace"))
        print(f"{args.junit} holds the checks as JUnit XML", file=sys.stderr)
    if args.github:
        print("\n".join(github.annotated(found)), flush=True)
        if path := os.environ.get("GITHUB_STEP_SUMMARY"):
            with open(path, "a", encoding="utf-8", errors="replace") as file:
                file.write(github.summary(verdicts, found))


def _write_script(args: argparse.Namespace, katas: list[Kata], verdicts: list[Verdict]) -> None:
    """The first failing call of the first kata that has one, as a script."""
    for kata, verdict in zip(katas, verdicts, strict=True):
        for cause in causes(verdict.checks):
            if cause.check.script:
                attempt = _attempt(args, kata) if args.attempt else kata.master if args.solution else kata.stub
                repro.write(args.repro, cause.check.script, attempt, catalog.ROOT)
                print(f"{args.repro}: the failing call of “{readable(cause.check.name)}”, to run with python")
                return
    print(f"dojo: {args.repro} is not written: no check failed in a single call", file=sys.stderr)


def _entry(kata: Kata, args: argparse.Namespace) -> Entry:
    if args.solution:
        return Entry.of_solution(kata)
    if args.attempt is not None:
        entry = Entry.of_file(kata, _attempt(args, kata))
        return replace(entry, others=_others(args.attempt, kata)) if args.attempt.is_dir() else entry
    check_files([kata])
    changed = not kata.stub.exists() or "notebook" in sync.pending(kata)
    if changed and (said := sync.sync(kata, opened=True)):
        print(filled(said, sys.stderr), file=sys.stderr)
    return Entry.of_stub(kata)


def _places(folder: Path, kata: Kata) -> list[Path]:
    """Where a folder of attempts may have one: as in a clone, by track, or flat."""
    names = [f"{kata.name}{suffix}" for suffix in (".py", ".ipynb")]
    return [folder / above / name for above in (f"katas/{kata.track}", kata.track, "") for name in names]


def _attempt(args: argparse.Namespace, kata: Kata) -> Path:
    """The file that is graded as this kata: the one that is named, or the one in the folder that is."""
    if not args.attempt.is_dir():
        return args.attempt
    places = _places(args.attempt, kata)
    found = next(filter(Path.is_file, places), None)
    if found is None:
        raise Trouble(f"{args.attempt} holds no attempt at {kata.name}: put it at {places[0]}, or at {places[-2]}")
    return found


def _others(folder: Path, kata: Kata) -> dict[str, str]:
    """The other attempts in the folder, which an attempt may import, as `positions/rope` to text."""
    places = {f"{each.track}/{each.name}": _places(folder, each) for each in catalog.katas().values() if each != kata}
    found = {name: next(filter(Path.is_file, paths), None) for name, paths in places.items()}
    return {name: read(path) for name, path in found.items() if path is not None}


def _device(word: str, server: ForkServer | FreshStarts, around: list[str]) -> tuple[str, ForkServer | FreshStarts]:
    """The device to grade on, and where its workers come from: CUDA contexts do not survive a fork."""
    import torch

    if word == "cuda" and not torch.cuda.is_available():
        raise Trouble("--device cuda: this PyTorch sees no GPU. `--device cpu` grades here")
    if word == "cpu" or not torch.cuda.is_available():
        return "cpu", server
    server.close()
    return "cuda", FreshStarts(around)


def _counts(args: argparse.Namespace) -> bool:
    """Whether this was a full grading of the user's own files, and may be remembered."""
    part = args.tier or args.expression or args.exitfirst or args.pdb
    return not (args.solution or args.attempt or part or args.no_record)


def _moment(kata: Kata) -> None:
    """Say what a pass comes to."""
    from dojo.practice import progress
    from dojo.practice.database import Unreadable

    with suppress(Unreadable):
        print(*progress.after_pass(kata, catalog.katas()), sep="\n", flush=True)


def _share(kata: Kata, verdict: Verdict, path: Path, minutes: float | None) -> None:
    """Write the card of a verdict, if there is something to show yet."""
    from dojo.verdict.page import card

    if not card.worth_sharing(verdict):
        print(f"dojo: no card was written to {path}: there is one once the core tier passes", file=sys.stderr)
        return
    files.write_atomic(path, card.of(verdict, kata.title, kata.level, kata.minutes, minutes))
    print(f"{path} is a card to share: kata, tiers, time and help, and nothing else about you", flush=True)


def _minutes(kata: Kata) -> float | None:
    """How long the user took from the first try to the pass, as far as the history has seen it."""
    from dojo.practice import database
    from dojo.practice.schedule import repetition

    try:
        return repetition.minutes_to_pass(database.recall_all(kata.name))
    except database.Unreadable:
        return None


def _record(entries: list[Entry], verdicts: list[Verdict]) -> None:
    from dojo.practice import history

    pairs = zip(entries, verdicts, strict=True)
    done = [(entry.kata, entry.source, verdict) for entry, verdict in pairs if verdict.verdict != "empty"]
    if done:
        history.record(done)
