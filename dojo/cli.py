"""The command line: `python -m dojo COMMAND …`. It only reads words; the work is imported when its command is named."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, NoReturn

WHICH = "a kata, a track or `all`; `list` shows them"


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit status: 2 when the command line or a name in it is wrong."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        status = _dispatch(words)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        print("dojo: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # the reader has gone; let the interpreter's own last flush find somewhere to write
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    name, *rest = words
    if name not in COMMANDS:
        return _complain(_unknown(name))
    from dojo.catalog import Trouble

    try:
        command = COMMANDS[name]
        parser = _Parser(
            prog=f"python -m dojo {name}",
            description=command.help[0].upper() + command.help[1:] + ".",
            epilog=command.examples and "examples:\n" + command.examples,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.add(parser)
        return command.run(parser, parser.parse_intermixed_args(rest))
    except Trouble as trouble:
        return _complain(str(trouble))
    except ModuleNotFoundError as error:
        if (error.name or "dojo").split(".")[0] == "dojo":
            raise
        return _complain(
            f"this Python ({sys.executable}) has no {error.name}. `python -m pip install -e .` in the project folder "
            "installs what is missing; without --no-venv, nox takes care of it."
        )


def _complain(message: str) -> int:
    sys.stdout.flush()
    print(f"dojo: {message}", file=sys.stderr)
    return 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dojo: {message}\n{self.format_usage()}")


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {command.help}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: python -m dojo COMMAND [WORDS]          (or, with its own environment: nox -s COMMAND -- [WORDS])",
            "",
            "Katas of the modern language model, with graders whose verdict is right.",
            "",
            *lines,
            "",
            "`python -m dojo COMMAND --help` explains one. A first try: edit katas/softmax.py, then",
            "`python -m dojo grade softmax`.",
        ]
    )


def _unknown(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=2, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(COMMANDS)}."
    return f"there is no command '{name}': {advice}"


def _add_grade(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{WHICH}; all when none is named")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--attempt", type=Path, metavar="FILE", help="grade this file as NAME instead of katas/NAME.py")
    what.add_argument("--solution", action="store_true", help="grade the reference solution")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts to FILE as JSON")
    parser.add_argument("--tier", choices=["core", "robust", "fast"], help="run only the checks of this tier")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="where to run")
    parser.add_argument("--seed", type=int, metavar="N", help="repeat a run with the seed that its verdict printed")
    parser.add_argument("-k", dest="expression", metavar="EXPR", help="run only checks whose name matches")
    parser.add_argument("-x", dest="exitfirst", action="store_true", help="stop at the first check that fails")
    parser.add_argument("--pdb", action="store_true", help="debug the attempt where it fails; the verdict is unjudged")


def _grade(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.attempt is not None and len(args.names) != 1:
        parser.error("--attempt needs the one NAME that the file is to be graded as")
    from dojo import grade

    return grade.main(args)


def _add_list(parser: argparse.ArgumentParser) -> None:
    """It takes no words."""


def _list(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import study

    return study.show_list()


def _one_kata(name: str):
    """The kata of that name; commands that show one thing do not take a track."""
    from dojo import catalog

    chosen = catalog.select([name])
    if len(chosen) != 1:
        raise catalog.UnknownKata(f"'{name}' is {len(chosen)} katas: name one of {', '.join(k.name for k in chosen)}")
    return chosen[0]


def _add_hint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a kata")
    parser.add_argument("--again", action="store_true", help="start over with the first hint")


def _hint(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import study

    return study.show_hint(_one_kata(args.name), again=args.again)


def _add_reveal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a kata")
    parser.add_argument("--spoil", action="store_true", help="even if you have not passed it")


def _reveal(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import study

    return study.reveal(_one_kata(args.name), spoil=args.spoil)


def _add_reset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help=WHICH)


def _reset(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import catalog, study

    for kata in catalog.select(args.names):
        print(study.reset(kata), flush=True)
    return 0


def _add_build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="write nothing; say what is stale and exit with 1")


def _build(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import build

    clean, said = build.build(check=args.check)
    print("\n".join(said or ["stubs and notebooks are what the masters give"]))
    return 0 if clean else 1


def _add_sync(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{WHICH}; all when none is named")
    parser.add_argument("--from", dest="source", choices=["notebook", "script"], help="this side is right")


def _sync(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.source and not args.names:
        parser.error("--from overwrites the other side, so it needs the NAMEs it is meant for")
    from dojo import catalog, sync

    status, quiet = 0, True
    for kata in catalog.select(args.names):
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


class Command(NamedTuple):
    """One command: what it does in a line, its arguments, how it runs and how it is used."""

    help: str
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.ArgumentParser, argparse.Namespace], int]
    examples: str = ""


COMMANDS = {
    "grade": Command(
        "grade your attempts, or any file",
        _add_grade,
        _grade,
        "  nox -s grade -- rope                          katas/rope.py\n"
        "  nox -s grade -- attention --tier core         a track, values and gradients only\n"
        "  nox -s grade -- rope --attempt ~/my_rope.py   a file of yours, as rope\n"
        "  nox -s grade -- rope --seed 1234              the run of that seed again\n"
        "  nox -s grade -- all --json verdict.json       everything, for a program to read\n\n"
        "exit status: 0 when every kata named passed, 1 when one did not, 2 for a wrong command line or missing file",
    ),
    "list": Command("list the katas by track, and how your attempts stand", _add_list, _list),
    "hint": Command("show one more hint", _add_hint, _hint, "  nox -s hint -- rope\n  nox -s hint -- rope --again"),
    "reveal": Command(
        "show the solution, once you have passed",
        _add_reveal,
        _reveal,
        "  nox -s reveal -- rope\n  nox -s reveal -- rope --spoil",
    ),
    "reset": Command(
        "start over with a fresh stub; the old attempt is kept",
        _add_reset,
        _reset,
        "  nox -s reset -- rope\n  nox -s reset -- attention",
    ),
    "build": Command(
        "make stubs and notebooks from the masters", _add_build, _build, "  nox -s build\n  nox -s build -- --check"
    ),
    "sync": Command(
        "make scripts and notebooks agree",
        _add_sync,
        _sync,
        "  nox -s sync\n  nox -s sync -- rope --from notebook",
    ),
}
