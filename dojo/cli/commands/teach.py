"""The commands of somebody who teaches a class."""

from __future__ import annotations

import argparse
from pathlib import Path

from dojo.cli.commands.declared import TEACH, Misused, argument, command, file, flag, number_of, one_of, positive

SECONDS = number_of("seconds", 86400)


@command(
    TEACH,
    "write a repository that grades each push, or an autograder",
    argument(
        "--katas", required=True, metavar="NAMES", help="katas or tracks with commas between them, as in gqa,rope"
    ),
    one_of(
        file("--out", "a template repository in a new folder, or an empty one", "DIR"),
        file("--autograder", "instead a zip that grades what arrives on Gradescope"),
        required=True,
    ),
    argument("--dojo", metavar="URL", help="where its workflows clone the dojo from: your fork, perhaps"),
    file("--course", "of an autograder: points and what students see"),
    file("--wheels", "of an autograder: wheels, to install with no network", "DIR"),
    argument("--index", metavar="URL", help="of an autograder: an index more, of CPU builds of PyTorch"),
    examples=(
        ("--katas gqa,rope --out class", "a repository"),
        ("--katas gqa,rope --autograder autograder.zip --course course.toml", "for Gradescope"),
    ),
    listed="Write a template repository for a course, with a workflow that grades (-- --katas gqa,rope --out DIR).",
)
def starter(args: argparse.Namespace) -> int:
    if args.autograder is None and (args.course or args.wheels or args.index):
        raise Misused("--course, --wheels and --index are an autograder's: name it with --autograder FILE")
    from dojo.cohort.outputs.starter import autograder, repository

    return autograder.main(args) if args.autograder else repository.main(args)


@command(
    TEACH,
    "write a page for the interviewer: prompts, answers, hints",
    argument("name", metavar="NAME", help="a kata; of an interview in stages all of them"),
    file("--out", "where to write it; interviewer-NAME.html here"),
    examples=(("gpt_screen", "prints on two A4 sheets"),),
    listed="Write a page for the interviewer (-- gpt_screen).",
)
def interviewer(args: argparse.Namespace) -> int:
    from dojo.practice.interview import interviewer

    return interviewer.main(args)


@command(
    TEACH,
    "grade a class: submissions in, results, feedback and a page out",
    argument(
        "submissions",
        nargs="?",
        type=Path,
        metavar="SUBMISSIONS",
        help="a folder of folders, a CSV or JSON Lines file, a zip, or an export of Moodle, Canvas or Gradescope",
    ),
    argument("--katas", default="all", metavar="NAMES", help="katas and tracks, as in gqa,rope; all of them"),
    argument("--out", type=Path, default=Path("results"), metavar="FOLDER", help="where results go; results"),
    argument(
        "--course",
        "--rubric",
        type=Path,
        metavar="FILE",
        help="points, deadlines, roster, decisions and what students see, a TOML file: docs/classroom/course.toml",
    ),
    argument(
        "--against",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="look for copies in this too, such as last year's submissions; may be named several times",
    ),
    file("--watch", "grade what arrives in this folder, until Ctrl-C", "FOLDER"),
    argument("--again", nargs="+", default=[], metavar="STUDENT", help="grade these once more"),
    argument("--ray", metavar="ADDRESS", help="grade on a Ray cluster, `auto` for this machine's"),
    argument("--device", choices=["cpu", "cuda"], default="cpu", help="where attempts run"),
    argument("--workers", type=positive, metavar="N", help="gradings at once; one a processor"),
    flag("--no-sandbox", help="without bubblewrap around what strangers wrote"),
    one_of(
        argument("--seed", type=int, metavar="N", help="the same for all; drawn once and kept when left out"),
        file(
            "--seed-from",
            "commit to a seed: the first time a secret is made and its sha256 printed, to be published; after the "
            "deadline the seed is its first seven hexadecimal digits, and the secret is printed for everybody to check",
        ),
    ),
    argument("--attempt-seconds", type=SECONDS, default=180.0, metavar="S", help="for one attempt; 180"),
    argument("--submission-seconds", type=SECONDS, default=1800.0, metavar="S", help="for one student; 1800"),
    examples=(
        ("submissions/ --katas gqa,rope", "results/ then holds it all; the same again grades what is new"),
        ("class.zip --katas attention --course course.toml", "with points, deadlines, a roster"),
        ("submissions/ --ray auto", "on a Ray cluster"),
    ),
    remark="exit status: 0 when everything has a result, 130 when it was stopped on the way",
    listed="Grade a whole class (-- submissions/ --katas gqa,rope --out results/).",
    extras={"--ray": "cohort"},
)
def cohort(args: argparse.Namespace) -> int:
    if (args.submissions is None) == (args.watch is None):
        raise Misused("name the SUBMISSIONS, or with --watch the folder that they arrive in")
    from dojo.cohort import command

    return command.main(args)
