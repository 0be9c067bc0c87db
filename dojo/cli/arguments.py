"""What each command takes: the arguments of its parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

TARGETS = ("all", "inference", "training", "research")
WHICH = "a kata, a track or `all`; `list` shows them"


def nothing(parser: argparse.ArgumentParser) -> None:
    """Of a command that takes no words."""


def grade(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{WHICH}; all when none is named")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--attempt",
        type=Path,
        metavar="FILE",
        help="grade this file as NAME instead of your own; of a folder, its files",
    )
    what.add_argument("--solution", action="store_true", help="grade the reference solution")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the verdicts as JSON to FILE, or to -")
    parser.add_argument(
        "--junit", type=Path, metavar="FILE", help="write the verdicts as JUnit XML to FILE, for any CI"
    )
    parser.add_argument(
        "--github", action="store_true", help="in a GitHub workflow: annotate the failing lines, and sum up the job"
    )
    parser.add_argument("--tier", choices=["core", "robust", "fast"], help="run only the checks of this tier")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto", help="where to run")
    parser.add_argument("--seed", type=int, metavar="N", help="repeat a run with the seed that its verdict printed")
    parser.add_argument("-k", dest="expression", metavar="EXPR", help="run only the check of this number or name")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line a check, and every failure in full")
    parser.add_argument("-x", dest="exitfirst", action="store_true", help="stop at the first check that fails")
    parser.add_argument("--sandbox", action="store_true", help="run the attempt under bubblewrap too (Linux)")
    parser.add_argument("--pdb", action="store_true", help="debug the attempt where it first fails; unjudged")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures of what failed to FILE")
    parser.add_argument("--repro", type=Path, metavar="FILE", help="write the first failing call to FILE as a script")
    parser.add_argument("--share", type=Path, metavar="FILE", help="write a card to share to FILE, an SVG")
    _no_record(parser)


def _no_record(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-record", action="store_true", help="leave no trace in the history")


def show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a kata")


def hint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a kata")
    parser.add_argument("--again", action="store_true", help="start over with the first hint")


def reveal(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a kata")
    parser.add_argument("--spoil", action="store_true", help="even if you have not passed it")
    parser.add_argument("--notebook", action="store_true", help="write lessons/NAME.ipynb, figures included")


def reset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help=WHICH)
    parser.add_argument("--yes", action="store_true", help="several at once without being asked")


CHECK = "write nothing; say what is stale, and which claims have no check and which checks no claim; then exit with 1"


def build(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help=CHECK)


def sync(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{WHICH}; all when none is named")
    parser.add_argument("--from", dest="source", choices=["notebook", "script"], help="this side is right")


def _positive(word: str) -> int:
    if not word.isdigit() or int(word) < 1:
        raise argparse.ArgumentTypeError(f"'{word}' is no number above 0")
    return int(word)


def _number_of(unit: str, most: int) -> Callable[[str], float]:
    def number(word: str) -> float:
        try:
            value = float(word)
        except ValueError:
            value = 0.0
        if not 0 < value <= most:
            raise argparse.ArgumentTypeError(f"'{word}' is no number of {unit} between 0 and {most}")
        return value

    return number


def _interview(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=WHICH)
    parser.add_argument(
        "--minutes", type=_number_of("minutes", 1440), metavar="M", help="the time; the katas' own when left out"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="let chance choose the same again")
    parser.add_argument(
        "--resume", nargs="?", const="", metavar="FOLDER", help="go on with one that was cut off, the last when unnamed"
    )
    _no_record(parser)


def mock(parser: argparse.ArgumentParser) -> None:
    _interview(parser)
    parser.add_argument("--random", type=_positive, metavar="N", help="let chance pick N katas")
    parser.add_argument("--level", type=int, choices=range(1, 6), metavar="L", help="of this level only")
    parser.add_argument(
        "--silent",
        action="store_true",
        help="on a save only run the file: what it prints, what it raises, whether its own asserts hold; "
        "the verdict comes at the end",
    )
    parser.add_argument("--real", action="store_true", help="as in an interview: silent, and no hints")
    parser.add_argument(
        "--track",
        metavar="TRACK",
        help="a loop: katas of a track, or of `all`, that fill the minutes (60 when left out) by their par, one after "
        "the other, with breaks in which no clock runs",
    )
    parser.add_argument("--explain", action="store_true", help="what an interviewer asks next, with good answers")


def quiz(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{WHICH}; what is due of all when none is named")
    parser.add_argument("--all", action="store_true", help="ask them all, due or not")
    parser.add_argument(
        "--minutes",
        type=_number_of("minutes", 1440),
        default=2.0,
        metavar="M",
        help="after so many no question begins; 2 when left out",
    )
    _no_record(parser)


def hunt(parser: argparse.ArgumentParser) -> None:
    _interview(parser)
    parser.add_argument("--random", action="store_true", help="let chance pick the kata")
    parser.add_argument(
        "--bugs", type=int, choices=range(1, 5), metavar="N", help="plant N in a file, up to 4 (1; 4 in a debug kata)"
    )
    parser.add_argument("--with-test", action="store_true", help="write a test too that would have caught the bugs")
    parser.add_argument("--crashes", action="store_true", help="plant bugs too that only raise an exception")
    parser.add_argument("--yes", action="store_true", help="katas that you have not passed too, without being asked")


def watch(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a kata")
    parser.add_argument("--seed", type=int, metavar="N", help="the inputs of this seed")
    _no_record(parser)


def _interview_day(word: str) -> date:
    try:
        day = date.fromisoformat(word)
    except ValueError:
        raise argparse.ArgumentTypeError(f"'{word}' is no date: write year, month and day, as in 2026-12-10") from None
    today = date.today()
    if not today <= day <= today + timedelta(366):
        wrong = "has passed" if day < today else "is more than a year away"
        raise argparse.ArgumentTypeError(f"{word} {wrong}: today is {today}")
    return day


def plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--date", type=_interview_day, metavar="DAY", help="the day of the interview, as in 2026-12-10")
    parser.add_argument(
        "--hours", type=_number_of("hours", 2000), metavar="H", help="the time you have until then, all days together"
    )
    parser.add_argument("--for", dest="target", choices=[*TARGETS], default="all", help="what the position is about")
    parser.add_argument("--known", default="", metavar="NAMES", help="katas or tracks that you know, as in rope,gqa")
    parser.add_argument("--clear", action="store_true", help="forget the plan")


def starter(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--katas", required=True, metavar="NAMES", help="katas or tracks with commas between them, as in gqa,rope"
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", type=Path, metavar="DIR", help="a template repository in a new folder, or an empty one")
    what.add_argument(
        "--autograder", type=Path, metavar="FILE", help="instead a zip that grades what arrives on Gradescope"
    )
    parser.add_argument("--dojo", metavar="URL", help="where its workflows clone the dojo from: your fork, perhaps")
    parser.add_argument("--course", type=Path, metavar="FILE", help="of an autograder: points and what students see")
    parser.add_argument(
        "--wheels", type=Path, metavar="DIR", help="of an autograder: wheels, to install with no network"
    )
    parser.add_argument("--index", metavar="URL", help="of an autograder: an index more, of CPU builds of PyTorch")


def prove(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="+", metavar="NAME", help="a kata, a track or `all`")
    steps = ("files", "stub", "right", "field", "wrong", "mutants", "margins")
    parser.add_argument("--only", action="append", choices=steps, default=[], help="this step alone; may be repeated")
    parser.add_argument("--seed", type=int, metavar="N", help="the inputs of this seed; by chance else")


def next(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=_positive, default=3, metavar="N", help="how many to name")


def history(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a kata; an overview when left out")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--diff", nargs=2, type=_positive, metavar=("A", "B"), help="compare two attempts by number")
    what.add_argument(
        "--restore", type=_positive, metavar="N", help="bring one back into katas/; what is there is kept"
    )
    what.add_argument("--export", type=Path, metavar="FILE", help="write all of it as JSON Lines")
    what.add_argument("--import", type=Path, metavar="FILE", help="add what such a file holds")


def report(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, metavar="FILE", help="where to write it; report.html beside the history")


def cohort(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "submissions", nargs="?", type=Path, metavar="SUBMISSIONS",
        help="a folder of folders, a CSV or JSON Lines file, a zip, or an export of Moodle, Canvas or Gradescope",
    )  # fmt: skip
    parser.add_argument("--katas", default="all", metavar="NAMES", help="katas and tracks, as in gqa,rope; all of them")
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="FOLDER", help="where results go; results")
    parser.add_argument(
        "--course", "--rubric", type=Path, metavar="FILE",
        help="points, deadlines, roster, decisions and what students see, a TOML file: docs/classroom/course.toml",
    )  # fmt: skip
    parser.add_argument(
        "--against", type=Path, action="append", default=[], metavar="DIR",
        help="look for copies in this too, such as last year's submissions; may be named several times",
    )  # fmt: skip
    parser.add_argument("--watch", type=Path, metavar="FOLDER", help="grade what arrives in this folder, until Ctrl-C")
    parser.add_argument("--again", nargs="+", default=[], metavar="STUDENT", help="grade these once more")
    parser.add_argument("--ray", metavar="ADDRESS", help="grade on a Ray cluster, `auto` for this machine's")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where attempts run")
    parser.add_argument("--workers", type=_positive, metavar="N", help="gradings at once; one a processor")
    parser.add_argument("--no-sandbox", action="store_true", help="without bubblewrap around what strangers wrote")
    chance = parser.add_mutually_exclusive_group()
    chance.add_argument("--seed", type=int, metavar="N", help="the same for all; drawn once and kept when left out")
    chance.add_argument(
        "--seed-from", type=Path, metavar="FILE",
        help="commit to a seed: the first time a secret is made and its sha256 printed, to be published; after the "
        "deadline the seed is its first seven hexadecimal digits, and the secret is printed for everybody to check",
    )  # fmt: skip
    limit = _number_of("seconds", 86400)
    parser.add_argument("--attempt-seconds", type=limit, default=180.0, metavar="S", help="for one attempt; 180")
    parser.add_argument("--submission-seconds", type=limit, default=1800.0, metavar="S", help="for one student; 1800")
