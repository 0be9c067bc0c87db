"""The commands: what each is for, what it takes and what it calls. The work is imported when its command runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

from dojo.cli import arguments


class Command(NamedTuple):
    """One command: what it does in a line, its arguments, how it runs and how it is used."""

    help: str
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.ArgumentParser, argparse.Namespace], int]
    examples: str = ""


def _grade(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.attempt is not None and len(args.names) != 1:
        parser.error("--attempt needs the one NAME that the file is to be graded as")
    from dojo.cli.grade import main

    return main(args)


def _list(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.cli import katas, selection
    from dojo.content import catalog

    selection.relocate(catalog.katas().values())
    return katas.show_list()


def _hint(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.cli import katas
    from dojo.cli.selection import selected_one

    return katas.show_hint(selected_one(args.name), again=args.again)


def _reveal(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.cli import katas
    from dojo.cli.selection import selected_one

    return katas.reveal(selected_one(args.name), spoil=args.spoil, as_notebook=args.notebook)


def _reset(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.cli import katas

    return katas.reset(args.names, args.yes)


def _build(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.cli import selection
    from dojo.content import build, catalog

    if not args.check:
        selection.relocate(catalog.katas().values())
    clean, said = build.build(check=args.check)
    print("\n".join(said or ["stubs and notebooks are what the masters give"]))
    if not args.check:
        return 0
    from dojo.grading import claims

    loose = [end for kata in catalog.katas().values() for end in claims.loose_ends(kata)]
    print("\n".join([*loose, f"{len(loose)} claims without a check or checks without a claim"]))
    return 0 if clean and not loose else 1


def _sync(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.source and not args.names:
        parser.error("--from overwrites the other side, so it needs the NAMEs it is meant for")
    from dojo.cli.selection import selected
    from dojo.content import sync

    status, quiet = 0, True
    for kata in selected(args.names):
        try:
            said = sync.sync(kata, args.source)
        except sync.SyncError as error:  # one pair in trouble must not keep the others from their turn
            said, status = None, 1
            print(f"dojo: {error}", file=sys.stderr)
        if said:
            quiet = False
            print(said, flush=True)
    if quiet and status == 0:
        print("scripts and notebooks agree")
    return status


def _mock(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.practice import mock

    return mock.main(args)


def _hunt(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.practice import bug_hunt

    return bug_hunt.main(args)


def _watch(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.cli import watch

    return watch.main(args)


def _next(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.practice import history

    return history.show_next(args)


def _history(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if (args.diff or args.restore) and not args.name:
        parser.error("--diff and --restore need the NAME of a kata")
    from dojo.cli.selection import selected_one
    from dojo.practice import history

    if args.name:
        selected_one(args.name)
    return history.main(args)


def _report(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.practice import report

    return report.main(args)


COMMANDS = {
    "grade": Command(
        "grade your attempts, or any file",
        arguments.grade,
        _grade,
        "  nox -s grade -- rope                          katas/positions/rope.py\n"
        "  nox -s grade -- attention --tier core         a track, values and gradients only\n"
        "  nox -s grade -- rope --attempt ~/my_rope.py   a file of yours, as rope\n"
        "  nox -s grade -- rope --seed 1234              the run of that seed again\n"
        "  nox -s grade -- all --json verdict.json       everything, for a program to read\n\n"
        "exit status: 0 when every kata named passed, 1 when one did not, 2 for a wrong command line or missing file",
    ),
    "list": Command("list the katas by track, and how your attempts stand", arguments.nothing, _list),
    "hint": Command(
        "show one more hint", arguments.hint, _hint, "  nox -s hint -- rope\n  nox -s hint -- rope --again"
    ),
    "reveal": Command(
        "show the solution, once you have passed",
        arguments.reveal,
        _reveal,
        "  nox -s reveal -- rope\n  nox -s reveal -- rope --spoil\n  nox -s reveal -- rope --notebook",
    ),
    "reset": Command(
        "start over with a fresh stub; the old attempt is kept",
        arguments.reset,
        _reset,
        "  nox -s reset -- rope\n  nox -s reset -- attention                     asks first; --yes for scripts",
    ),
    "watch": Command(
        "grade on every save, from a process that stays", arguments.watch, _watch, "  nox -s watch -- rope"
    ),
    "mock": Command(
        "hold a mock interview against the clock",
        arguments.mock,
        _mock,
        "  nox -s mock -- rope --minutes 25\n"
        "  nox -s mock -- --random 2 --level 2\n"
        "  nox -s mock -- --resume                       the one that was cut off\n"
        "  nox -s mock -- rope --explain                 what is asked afterwards",
    ),
    "hunt": Command(
        "find the bug that is planted in a solution",
        arguments.hunt,
        _hunt,
        "  nox -s hunt -- mha\n  nox -s hunt -- --random --bugs 3",
    ),
    "next": Command("say what to practise now", arguments.next, _next),
    "history": Command(
        "list, compare and restore earlier attempts",
        arguments.history,
        _history,
        "  nox -s history -- rope\n"
        "  nox -s history -- rope --diff 1 4\n"
        "  nox -s history -- rope --restore 4\n"
        "  nox -s history -- --export attempts.jsonl",
    ),
    "report": Command("write a page about all of your practice", arguments.report, _report),
    "build": Command(
        "make stubs and notebooks from the masters",
        arguments.build,
        _build,
        "  nox -s build\n  nox -s build -- --check",
    ),
    "sync": Command(
        "make scripts and notebooks agree",
        arguments.sync,
        _sync,
        "  nox -s sync\n  nox -s sync -- rope --from notebook",
    ),
}
