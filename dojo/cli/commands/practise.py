"""The commands of somebody who practises for an interview."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from dojo.cli.commands.declared import (
    KATAS,
    NO_RECORD,
    PRACTISE,
    WHICH,
    Misused,
    argument,
    command,
    day_ahead,
    file,
    flag,
    number_of,
    one_of,
    positive,
)

TARGETS = ("all", "inference", "training", "research")
MINUTES = number_of("minutes", 1440)
SEED = argument("--seed", type=int, metavar="N", help="let chance choose the same again")
RESUME = argument(
    "--resume", nargs="?", const="", metavar="FOLDER", help="go on with one that was cut off, the last when unnamed"
)
PREPARE = flag("--prepare", help="make it and print its folder; `--resume FOLDER` holds it")
INTERVIEW = (
    KATAS,
    argument("--minutes", type=MINUTES, metavar="M", help="the time; the katas' own when left out"),
    SEED,
    RESUME,
    PREPARE,
    NO_RECORD,
)


@command(
    PRACTISE,
    "say what to practise now",
    argument("--count", type=positive, default=3, metavar="N", help="how many to name"),
)
def next_(args: argparse.Namespace) -> int:
    from dojo.practice import history
    from dojo.verdict.screen.text import filled

    print(filled(history.proposals(args.count), sys.stdout))
    return 0


@command(
    PRACTISE,
    "spread the katas over the days until your interview",
    argument("--date", type=day_ahead, metavar="DAY", help="the day of the interview, as in 2026-12-10"),
    argument(
        "--hours",
        type=number_of("hours", 2000),
        metavar="H",
        help="the time you have until then, all days together",
    ),
    argument("--for", dest="target", choices=[*TARGETS], default="all", help="what the position is about"),
    argument("--known", default="", metavar="NAMES", help="katas or tracks that you know, as in rope,gqa"),
    flag("--place", help="first find out what you know: five drills in ten minutes, one of each level"),
    flag("--clear", help="forget the plan"),
    examples=(
        ("--date 2026-12-10 --hours 6", "make it; `next` follows it"),
        ("--date 2026-12-10 --hours 6 --place", "after ten minutes that say what you know"),
        ("--date 2026-12-10 --hours 6 --for inference --known rope,gqa", "more of what they ask, less of yours"),
        ("", "what is done"),
        ("--clear", "forget it"),
    ),
)
def plan(args: argparse.Namespace) -> int:
    if (args.date is None) != (args.hours is None):
        raise Misused("--date and --hours go together, as in --date 2026-12-10 --hours 6")
    if args.clear and (args.date or args.place):
        raise Misused("--clear forgets the plan, so it takes no --date and no --place")
    if args.date is None and (args.known or args.target != "all"):
        raise Misused("--for and --known are for a new plan, which needs --date and --hours")
    from dojo.cli import planning

    return planning.plan(args)


@command(
    PRACTISE,
    "write one short kata from memory, against the clock",
    argument("name", nargs="?", metavar="NAME", help="a short kata; what is due, or planned, when left out"),
    argument("--minutes", type=MINUTES, metavar="M", help="the time; 5 to 10, by its par, when left out"),
    RESUME,
    PREPARE,
    NO_RECORD,
    examples=(
        ("softmax", ""),
        ("", "what is due, else what the plan has next"),
        ("--resume", "the one that was cut off"),
    ),
)
def drill(args: argparse.Namespace) -> int:
    from dojo.practice.interview import drill

    return drill.main(args)


@command(
    PRACTISE,
    "hold a mock interview against the clock",
    *INTERVIEW,
    argument("--random", type=positive, metavar="N", help="let chance pick N katas"),
    argument("--level", type=int, choices=range(1, 6), metavar="L", help="of this level only"),
    flag(
        "--silent",
        help="on a save only run the file: what it prints, what it raises, whether its own asserts hold; "
        "the verdict comes at the end",
    ),
    flag("--real", help="as in an interview: silent, and no hints"),
    argument(
        "--track",
        metavar="TRACK",
        help="a loop: katas of a track, or of `all`, that fill the minutes (60 when left out) by their par, one after "
        "the other, with breaks in which no clock runs",
    ),
    flag("--explain", help="what an interviewer asks next, with good answers"),
    examples=(
        ("rope --minutes 25", ""),
        ("rope --real", "no verdict before the end, no hints, no contract"),
        ("gpt_screen --minutes 60", "an interview in stages"),
        ("--track attention --minutes 60", "several, with breaks"),
        ("--random 2 --level 2", ""),
        ("--resume", "the one that was cut off"),
        ("rope --explain", "what is asked afterwards"),
    ),
)
def mock(args: argparse.Namespace) -> int:
    if args.track and (args.names or args.random):
        raise Misused("--track chooses the katas: leave out NAME and --random")
    from dojo.practice.interview import mock

    return mock.main(args)


@command(
    PRACTISE,
    "ask the interviewer of the mock that is running",
    argument("words", nargs="+", metavar="QUESTION", help="what you want to know, in your words"),
    argument("--mock", type=Path, metavar="FOLDER", help="which mock, where several are running"),
    examples=(('"what about masked rows?"', "beside the editor; or type it at the mock"),),
)
def ask(args: argparse.Namespace) -> int:
    from dojo.practice.interview import mock

    return mock.ask(" ".join(args.words), args.mock)


@command(
    PRACTISE,
    "answer what interviewers ask next, when it is due",
    argument("names", nargs="*", metavar="NAME", help=f"{WHICH}; what is due of all when none is named"),
    flag("--all", help="ask them all, due or not"),
    argument(
        "--minutes",
        type=MINUTES,
        default=2.0,
        metavar="M",
        help="after so many no question begins; 2 when left out",
    ),
    NO_RECORD,
    examples=(("", "two minutes of what is due"), ("rope", "of this kata, new ones too"), ("rope --all", "")),
)
def quiz(args: argparse.Namespace) -> int:
    from dojo.practice.interview import quiz

    return quiz.main(args)


@command(
    PRACTISE,
    "find the bugs that are planted in a solution",
    *INTERVIEW,
    flag("--random", help="let chance pick the kata"),
    argument(
        "--bugs", type=int, choices=range(1, 5), metavar="N", help="plant N in a file, up to 4 (1; 4 in a debug kata)"
    ),
    flag("--with-test", help="write a test too that would have caught the bugs"),
    flag(
        "--assistant",
        help="an assistant has refactored the solution, with two bugs or none: accept or reject its patch, and mend it",
    ),
    flag("--crashes", help="plant bugs too that only raise an exception"),
    flag("--yes", help="katas that you have not passed too, without being asked"),
    examples=(
        ("mha", ""),
        ("mha --bugs 3", "three that do not hide each other"),
        ("mha --with-test", "and a test that would have caught it"),
        ("mha --assistant", "an assistant's patch: accept or reject it, then mend it"),
        ("--random --yes", "even one not passed"),
    ),
    listed="Find the bug that is planted in a solution (-- mha).",
)
def hunt(args: argparse.Namespace) -> int:
    if args.assistant and (args.bugs or args.crashes):
        raise Misused("--assistant plants two bugs that give wrong values, or none: leave out --bugs and --crashes")
    from dojo.practice.hunt import bug_hunt

    return bug_hunt.main(args)


@command(
    PRACTISE,
    "review a pull request with planted bugs",
    argument("name", nargs="?", metavar="NAME", help="a kata"),
    argument("--minutes", type=MINUTES, metavar="M", help="the time; 15 when left out"),
    SEED,
    RESUME,
    PREPARE,
    NO_RECORD,
    flag("--random", help="let chance pick the kata"),
    flag("--yes", help="a kata that you have not passed too, without being asked"),
    examples=(("rope", "LINE: reason, for each bug"), ("--random --yes", ""), ("--resume", "the one that was cut off")),
)
def review(args: argparse.Namespace) -> int:
    from dojo.practice.hunt import review

    return review.main(args)


@command(
    PRACTISE,
    "list, compare and restore earlier attempts",
    argument("name", nargs="?", metavar="NAME", help="a kata; an overview when left out"),
    one_of(
        argument("--diff", nargs=2, type=positive, metavar=("A", "B"), help="compare two attempts by number"),
        argument("--restore", type=positive, metavar="N", help="bring one back into katas/; what is there is kept"),
        file("--export", "write all of it as JSON Lines"),
        file("--import", "add what such a file holds"),
    ),
    examples=(("rope", ""), ("rope --diff 1 4", ""), ("rope --restore 4", ""), ("--export attempts.jsonl", "")),
)
def history(args: argparse.Namespace) -> int:
    if (args.diff or args.restore) and not args.name:
        raise Misused("--diff and --restore need the NAME of a kata")
    from dojo.cli.selection import selected_one
    from dojo.practice import history

    if args.name:
        selected_one(args.name)
    return history.main(args)


@command(
    PRACTISE,
    "write a page about all of your practice",
    file("--out", "where to write it; report.html beside the history"),
    listed="Write a page about all of your practice and print its path.",
)
def report(args: argparse.Namespace) -> int:
    from dojo.practice import report

    return report.main(args)
