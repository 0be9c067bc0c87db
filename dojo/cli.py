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
    parser.add_argument("--sandbox", action="store_true", help="run the attempt under bubblewrap too (Linux)")
    parser.add_argument("--pdb", action="store_true", help="debug the attempt where it fails; the verdict is unjudged")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures of what failed to FILE")
    _add_no_record(parser)


def _add_no_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-record", action="store_true", help="leave no trace in the history")


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


def _add_hint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a kata")
    parser.add_argument("--again", action="store_true", help="start over with the first hint")


def _hint(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import catalog, study

    return study.show_hint(catalog.one(args.name), again=args.again)


def _add_reveal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a kata")
    parser.add_argument("--spoil", action="store_true", help="even if you have not passed it")
    parser.add_argument("--notebook", action="store_true", help="write lessons/NAME.ipynb, figures included")


def _reveal(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import catalog, study

    return study.reveal(catalog.one(args.name), spoil=args.spoil, as_notebook=args.notebook)


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


def _positive(word: str) -> int:
    if not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"'{word}' is no number above 0")
    return int(word)


def _minutes(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1440:
        raise argparse.ArgumentTypeError(f"'{word}' is no number of minutes between 0 and 1440")
    return value


def _add_interview(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=WHICH)
    parser.add_argument("--minutes", type=_minutes, metavar="M", help="the time; the katas' own when left out")
    parser.add_argument("--seed", type=int, metavar="N", help="let chance choose the same again")
    parser.add_argument(
        "--resume", nargs="?", const="", metavar="FOLDER", help="go on with one that was cut off, the last when unnamed"
    )
    _add_no_record(parser)


def _add_mock(parser: argparse.ArgumentParser) -> None:
    _add_interview(parser)
    parser.add_argument("--random", type=_positive, metavar="N", help="let chance pick N katas")
    parser.add_argument("--level", type=int, choices=range(1, 6), metavar="L", help="of this level only")
    parser.add_argument("--explain", action="store_true", help="what an interviewer asks next, with good answers")


def _mock(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import mock

    return mock.main(args)


def _add_hunt(parser: argparse.ArgumentParser) -> None:
    _add_interview(parser)
    parser.add_argument("--random", action="store_true", help="let chance pick the kata")
    parser.add_argument("--bugs", type=_positive, default=1, metavar="N", help="how many are planted in a file")


def _hunt(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import hunt

    return hunt.main(args)


def _add_watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a kata")
    parser.add_argument("--seed", type=int, metavar="N", help="the inputs of this seed")
    _add_no_record(parser)


def _watch(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import watch

    return watch.main(args)


def _add_next(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=_positive, default=3, metavar="N", help="how many to name")


def _next(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import records

    return records.show_next(args)


def _add_history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a kata; an overview when left out")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--diff", nargs=2, type=_positive, metavar=("A", "B"), help="compare two attempts by number")
    what.add_argument(
        "--restore", type=_positive, metavar="N", help="bring one back into katas/; what is there is kept"
    )
    what.add_argument("--export", type=Path, metavar="FILE", help="write all of it as JSON Lines")
    what.add_argument("--import", type=Path, metavar="FILE", help="add what such a file holds")


def _history(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if (args.diff or args.restore) and not args.name:
        parser.error("--diff and --restore need the NAME of a kata")
    from dojo import records

    return records.main(args)


def _add_report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write it; report.html beside the history")


def _report(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo import report

    return report.main(args)


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
        "  nox -s reveal -- rope\n  nox -s reveal -- rope --spoil\n  nox -s reveal -- rope --notebook",
    ),
    "reset": Command(
        "start over with a fresh stub; the old attempt is kept",
        _add_reset,
        _reset,
        "  nox -s reset -- rope\n  nox -s reset -- attention",
    ),
    "watch": Command("grade on every save, from a warm process", _add_watch, _watch, "  nox -s watch -- rope"),
    "mock": Command(
        "hold a mock interview against the clock",
        _add_mock,
        _mock,
        "  nox -s mock -- rope --minutes 25\n"
        "  nox -s mock -- --random 2 --level 2\n"
        "  nox -s mock -- --resume                       the one that was cut off\n"
        "  nox -s mock -- rope --explain                 what is asked afterwards",
    ),
    "hunt": Command(
        "find the bug that is planted in a solution",
        _add_hunt,
        _hunt,
        "  nox -s hunt -- mha\n  nox -s hunt -- --random --bugs 3",
    ),
    "next": Command("say what to practise now", _add_next, _next),
    "history": Command(
        "list, compare and restore earlier attempts",
        _add_history,
        _history,
        "  nox -s history -- rope\n"
        "  nox -s history -- rope --diff 1 4\n"
        "  nox -s history -- rope --restore 4\n"
        "  nox -s history -- --export attempts.jsonl",
    ),
    "report": Command("write a page about all of your practice", _add_report, _report),
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
