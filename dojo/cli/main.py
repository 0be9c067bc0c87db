"""The command line: `python -m dojo COMMAND …`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from dojo.cli.commands import COMMANDS


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
    from dojo.content.catalog import Trouble

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
            "`python -m dojo COMMAND --help` explains one. A first try: edit katas/basics/softmax.py,",
            "then `python -m dojo grade softmax`.",
        ]
    )


def _unknown(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=2, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(COMMANDS)}."
    return f"there is no command '{name}': {advice}"
