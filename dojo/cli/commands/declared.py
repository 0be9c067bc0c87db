"""How a command is declared: once, for its parser, its help, the overview and its nox session. Needs argparse alone."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from dojo.content.arguments import day_ahead, number_of, positive  # noqa: F401  # for those who declare

SOLVE, PRACTISE, NOTEBOOKS = "Solve a kata", "Practise for the interview", "Notebooks"
TEACH, MAINTAIN = "Teach a class", "Work on the project"
HEADINGS = (SOLVE, PRACTISE, NOTEBOOKS, TEACH, MAINTAIN)

Run = Callable[[argparse.Namespace], int]
Argument = Callable[[Any], object]  # adds itself to a parser, or to a group of one


class Misused(Exception):
    """Words of a command line that do not go together: the message is told with the usage, and the status is 2."""


class Command(NamedTuple):
    """One command: its heading, what it does in a line, its arguments, how it runs, and examples with a remark each."""

    heading: str
    help: str
    arguments: tuple[Argument, ...]
    run: Run
    examples: tuple[tuple[str, str], ...] = ()
    remark: str = ""  # below the examples
    listed: str = ""  # what `nox --list` says where help and example do not say it
    extras: Mapping[str, str] = MappingProxyType({})  # that nox installs, by the option that wants them, "" for always

    def parser(self, kind: type[argparse.ArgumentParser], **how: Any) -> argparse.ArgumentParser:
        """A parser of this kind for what the command takes."""
        parser = kind(description=f"{_sentence(self.help)}.", **how)
        for add in self.arguments:
            add(parser)
        return parser

    @property
    def in_nox(self) -> str:
        """What `nox --list` says: the help with an example."""
        example = next((f" (-- {words})" for words, _ in self.examples if words), "")
        return self.listed or f"{_sentence(self.help)}{example}."


DECLARED: dict[str, Command] = {}


def command(heading: str, help: str, *arguments: Argument, **further: Any) -> Callable[[Run], Run]:
    """Declare the function below as the command of its name; it imports what it needs when it runs.

    `further` are the fields of a `Command` that may be left out.
    """

    def declare(run: Run) -> Run:
        DECLARED[run.__name__.rstrip("_")] = Command(heading, help, arguments, run, **further)
        return run

    return declare


def argument(*names: str, **how: Any) -> Argument:
    """An argument in the words of `argparse.ArgumentParser.add_argument`."""
    return lambda parser: parser.add_argument(*names, **how)


def flag(*names: str, **how: Any) -> Argument:
    """An option without a value."""
    return argument(*names, action="store_true", **how)


def file(name: str, help: str, metavar: str = "FILE") -> Argument:
    """An option that takes a path."""
    return argument(name, type=Path, metavar=metavar, help=help)


def one_of(*arguments: Argument, required: bool = False) -> Argument:
    """Options that exclude each other."""

    def add(parser: argparse.ArgumentParser) -> None:
        group = parser.add_mutually_exclusive_group(required=required)
        for each in arguments:
            each(group)

    return add


WHICH = "a kata, a track or `all`; `list` shows them"
KATA = argument("name", metavar="NAME", help="a kata")
KATAS = argument("names", nargs="*", metavar="NAME", help=WHICH)
KATAS_OR_ALL = argument("names", nargs="*", metavar="NAME", help=f"{WHICH}; all when none is named")
NO_RECORD = flag("--no-record", help="leave no trace in the history")


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]
