"""The verdicts of `grade` on what the command line names, on the screen and in files."""

from __future__ import annotations

import argparse
import json
import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dojo.cli.selection import check_files, check_stage
from dojo.content import catalog, files, sync
from dojo.content.catalog import Kata, Trouble, typed
from dojo.grading import steps
from dojo.grading.options import Entry, Options, fresh_seed, read
from dojo.verdict import repro
from dojo.verdict.causes import causes
from dojo.verdict.failures import LeftDebugger
from dojo.verdict.page import github
from dojo.verdict.screen.terminal import Screen
from dojo.verdict.screen.text import filled, readable

if TYPE_CHECKING:
    from dojo.grading.judge_process import JudgeHere, JudgeProcess
    from dojo.verdict.types import Verdict


def grade(args: argparse.Namespace, judge: JudgeProcess | JudgeHere) -> int:
    """Have the judge grade what the command line names; the exit status is 0 if all that was asked passes, else 1."""
    katas = _katas(args)
    if args.stage:
        check_stage(katas, args.stage)
    entries = [_entry(kata, args) for kata in katas]
    screen = Screen(sys.stderr if _piped(args) else sys.stdout)
    try:
        with github.without_commands(args.github):
            verdicts = judge.grade(entries, _options(args), screen)
            if not any(verdict.checks or verdict.message for verdict in verdicts):
                raise Trouble(_none_chosen(katas, args))
            _show(args, entries, verdicts, screen)
    except LeftDebugger:
        print("dojo: you left the debugger: nothing was judged", file=sys.stderr)
        return 1
    _write_files(args, entries, verdicts)
    if _counts(args):
        _record(entries, verdicts)
    if args.share:
        _share(katas[0], verdicts[0], args.share, _minutes(katas[0]) if _counts(args) else None)
    if _own(args):
        for kata in katas:
            sync.sync(kata, opened=True)  # after the verdict, which an edited script need not wait for
    return 0 if all(verdict.verdict == "passed" for verdict in verdicts) else 1


def _katas(args: argparse.Namespace) -> list[Kata]:
    """The katas that are named; of a folder of attempts those that it holds. Raises Trouble."""
    katas = catalog.select(args.names)
    folder = args.attempt if args.attempt is not None and args.attempt.is_dir() else None
    if folder is not None and not args.names:
        katas = [kata for kata in katas if any(map(Path.is_file, _places(folder, kata)))] or katas
    if args.attempt is not None and folder is None and len(katas) != 1:
        raise Trouble("--attempt grades one file as one kata: name that kata, as in `grade rope --attempt FILE`")
    if args.share is not None and len(katas) != 1:
        raise Trouble(f"--share makes the card of one kata, and {' '.join(args.names)} is {len(katas)} of them")
    return katas


def _options(args: argparse.Namespace) -> Options:
    return Options(
        fresh_seed(args.seed),
        args.tier,
        args.device,
        args.expression or "",
        stop_at_first=args.exitfirst or args.pdb,
        debug=args.pdb,
        scripts=args.repro is not None,
        stage=args.stage,
        so_far=args.stage is not None,
    )


def _own(args: argparse.Namespace) -> bool:
    """Whether the user's own files are graded, and as the kata."""
    return not (args.attempt or args.solution or args.step)


def _piped(args: argparse.Namespace) -> bool:
    """Whether a program reads the verdicts: it has standard output to itself then."""
    return str(args.json) == "-"


def _show(args: argparse.Namespace, entries: list[Entry], verdicts: list[Verdict], screen: Screen) -> None:
    """The verdicts on the screen: of one kata in full, of several those that say what is wrong, and a summary."""
    if _own(args):
        _say_help(entries, verdicts)
        if [verdict.verdict for verdict in verdicts] == ["empty"]:
            from dojo.cli.katas import show_beginning

            show_beginning(entries[0].kata)
    for verdict in verdicts:
        if len(verdicts) == 1 or args.verbose or verdict.verdict not in ("passed", "empty"):
            screen.verdict(verdict, args.verbose)
    screen.summary(verdicts)


def _say_help(entries: list[Entry], verdicts: list[Verdict]) -> None:
    """Say in each verdict on the user's own file which help counts for it."""
    from dojo.practice import progress

    for entry, verdict in zip(entries, verdicts, strict=True):
        if verdict.verdict in ("passed", "failed"):
            verdict.help = progress.aid(entry.kata, entry.source).words
        verdict.remarks += progress.regressions(entry.kata, verdict)


def _none_chosen(katas: list[Kata], args: argparse.Namespace) -> str:
    """What is said where the command line names no check."""
    what = katas[0].name if len(katas) == 1 else f"these {len(katas)} katas"
    fits = [f"fits -k {args.expression!r}"] if args.expression else []
    fits += [f"is of the tier {args.tier}"] if args.tier else []
    listed = f"`{typed(f'grade {katas[0].name} --verbose')}` lists them with their numbers"
    return f"no check of {what} {' and '.join(fits)}: {listed}"


def _write_files(args: argparse.Namespace, entries: list[Entry], verdicts: list[Verdict]) -> None:
    """The files that were asked for: a script of a failure, a page, JSON, and what a CI reads."""
    if args.repro:
        _write_script(args, entries, verdicts)
    if args.html:
        from dojo.verdict.page import html

        files.write_atomic(args.html, html.of_run(verdicts))
        failed = any(verdict.verdict == "failed" for verdict in verdicts)
        what = "with pictures of what failed" if failed else "about this run"
        print(f"{args.html} is a page {what}", file=sys.stderr)
    if args.json:
        text = json.dumps([v.to_json() for v in verdicts], indent=1)
        if _piped(args):
            print(text, flush=True)
        else:
            files.write_atomic(args.json, f"{text}\n")
            print(f"{args.json} holds {len(verdicts)} verdict{'s' * (len(verdicts) != 1)} as JSON", file=sys.stderr)
    if args.junit or args.github:
        _tell_ci(args, entries, verdicts)


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


def _write_script(args: argparse.Namespace, entries: list[Entry], verdicts: list[Verdict]) -> None:
    """The first failing call of the first kata that has one, as a script."""
    for kata, verdict in zip([entry.kata for entry in entries], verdicts, strict=True):
        for cause in causes(verdict.checks):
            if cause.check.script:
                attempt = _attempt(args, kata) if args.attempt else kata.master if args.solution else kata.stub
                repro.write(args.repro, cause.check.script, attempt, catalog.ROOT)
                print(f"{args.repro}: the failing call of “{readable(cause.check.name)}”, to run with python")
                return
    print(f"dojo: {args.repro} is not written: no check failed in a single call", file=sys.stderr)


def _entry(kata: Kata, args: argparse.Namespace) -> Entry:
    if args.step:
        return steps.of_file(kata, args.step, args.attempt)
    if args.solution:
        return Entry.of_solution(kata)
    if args.attempt is not None:
        entry = Entry.of_file(kata, _attempt(args, kata))
        return replace(entry, others=_others(args.attempt, kata)) if args.attempt.is_dir() else entry
    check_files([kata])
    changed = not kata.stub.exists() or "notebook" in sync.pending(kata)
    if changed and (message := sync.sync(kata, opened=True)):
        print(filled(message, sys.stderr), file=sys.stderr)
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


def _counts(args: argparse.Namespace) -> bool:
    """Whether this was a full grading of the user's own files, and may be remembered."""
    part = args.tier or args.expression or args.exitfirst or args.pdb or args.stage
    return _own(args) and not (part or args.no_record)


def _share(kata: Kata, verdict: Verdict, path: Path, minutes: float | None) -> None:
    """Write the card of a verdict, if there is something to show yet."""
    from dojo.verdict.page import card

    if not card.worth_sharing(verdict):
        print(f"dojo: no card was written to {path}: there is one once the core tier passes", file=sys.stderr)
        return
    files.write_atomic(path, card.svg(verdict, kata.title, kata.level, kata.minutes, minutes))
    print(f"{path} is a card to share: kata, tiers, time and help, and nothing else about you", flush=True)


def _minutes(kata: Kata) -> float | None:
    """How long the user took from the first try to what was right, as far as the history has seen it."""
    from dojo.practice import database
    from dojo.practice.schedule import repetition

    with suppress(database.Unreadable):
        return repetition.minutes_to_solve(database.recall_all(kata.name))
    return None


def _record(entries: list[Entry], verdicts: list[Verdict]) -> None:
    """Remember what was graded, and say what a pass of a single kata comes to."""
    from dojo.practice import history, progress
    from dojo.practice.database import Unreadable

    pairs = zip(entries, verdicts, strict=True)
    done = [(entry.kata, entry.source, verdict) for entry, verdict in pairs if verdict.verdict != "empty"]
    if done:
        history.record(done)
    if [verdict.verdict for verdict in verdicts] == ["passed"]:
        with suppress(Unreadable):
            print(*progress.after_pass(entries[0].kata, catalog.katas()), sep="\n", flush=True)
