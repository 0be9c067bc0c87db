"""The command line: `dojo COMMAND …`, which `python -m dojo` and every nox session is too."""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

from dojo.cli.commands import COMMANDS, overview
from dojo.cli.commands.declared import Command, Misused
from dojo.content.catalog import STARTED_BY, Trouble, typed


def script() -> int:
    """The console command `dojo`."""
    os.environ[STARTED_BY] = "dojo"
    return main()


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
    if words and words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if words and words[0] not in COMMANDS:
        return _complain(_unknown(words[0]))
    try:
        if not words:
            from dojo.cli import home

            return home.main()
        return _command(*words)
    except Trouble as trouble:
        return _complain(str(trouble))
    except ModuleNotFoundError as error:
        if (error.name or "dojo").split(".")[0] == "dojo":
            raise
        extras = ",".join(COMMANDS[words[0]].extras.values()) if words else ""
        what = f"'.[{extras}]'" if extras else "."
        return _complain(
            f"this Python ({sys.executable}) has no {error.name}. `python -m pip install -e {what}` in the project "
            "folder installs what is missing; without --no-venv, nox takes care of it."
        )


def _command(name: str, *words: str) -> int:
    command = COMMANDS[name]
    parser = command.parser(
        _Parser,
        prog=typed(f"{name} …").removesuffix(" …"),
        epilog=_examples(name, command),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    args = parser.parse_intermixed_args(words)
    try:
        return command.run(args)
    except Misused as misused:
        parser.error(str(misused))


def _complain(message: str) -> int:
    sys.stdout.flush()
    from dojo.verdict.screen.text import filled

    print(filled(f"dojo: {message}", sys.stderr), file=sys.stderr)
    return 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"dojo: {message}\n{self.format_usage()}")


def _examples(name: str, command: Command) -> str:
    """What follows the options in a command's help: examples with their remarks in a column."""
    rows = [(typed(f"{name} {words}".rstrip()), remark) for words, remark in command.examples]
    width = max((len(line) for line, _ in rows), default=0)
    lines = [f"  {line:{width}}  {remark}".rstrip() for line, remark in rows]
    return "\n".join([*(["examples:"] if lines else []), *lines, *(["", command.remark] if command.remark else [])])


def _unknown(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name, COMMANDS, n=2, cutoff=0.5)
    advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(COMMANDS)}."
    return f"there is no command '{name}': {advice}"
