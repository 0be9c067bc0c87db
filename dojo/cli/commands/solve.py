"""The commands of somebody who solves a kata."""

from __future__ import annotations

import argparse

from dojo.cli.commands.declared import (
    KATA,
    KATAS_OR_ALL,
    NO_RECORD,
    SOLVE,
    WHICH,
    Misused,
    argument,
    command,
    file,
    flag,
    one_of,
    positive,
)


@command(SOLVE, "list the katas by track, and how your attempts stand")
def list_(args: argparse.Namespace) -> int:
    from dojo.cli import katas

    return katas.show_list()


@command(
    SOLVE,
    "show what a kata asks for, or three orders through them",
    argument("name", metavar="NAME", help="a kata; `path` for three orders through them, day by day"),
    flag("--contract", help="what a reviewer would insist on, by topics"),
    flag("--lesson", help="what leads to it, where it has a lesson: the idea, and small steps"),
    argument("--stage", type=positive, metavar="N", help="what a kata with stages asks for in this one"),
    examples=(
        ("rope", ""),
        ("rope --lesson", ""),
        ("gpt_screen --stage 2", ""),
        ("path", "what to take in which order"),
    ),
)
def show(args: argparse.Namespace) -> int:
    from dojo.cli import katas
    from dojo.cli.selection import check_stage, selected_one

    if args.name == "path":
        return katas.show_paths()
    kata = selected_one(args.name)
    if args.stage:
        check_stage([kata], args.stage)
    if args.lesson:
        return katas.show_lesson(kata)
    return katas.show_statement(kata, args.contract, args.stage)


@command(
    SOLVE,
    "grade your attempts, or any file",
    KATAS_OR_ALL,
    one_of(
        file("--attempt", "grade this file as NAME instead of your own; of a folder, its files"),
        flag("--solution", help="grade the reference solution"),
    ),
    file("--json", "write the verdicts as JSON to FILE, or to -"),
    file("--junit", "write the verdicts as JUnit XML to FILE, for any CI"),
    flag("--github", help="in a GitHub workflow: annotate the failing lines, and sum up the job"),
    argument("--tier", choices=["core", "robust", "fast"], help="run only the checks of this tier"),
    argument("--stage", type=positive, metavar="N", help="of a kata with stages: grade the first N of them"),
    argument("--step", type=positive, metavar="N", help="grade a step of the lesson, in the notebook or a file"),
    argument("--device", choices=["auto", "cpu", "cuda"], default="cpu", help="auto is the GPU, if there is one"),
    argument("--seed", type=int, metavar="N", help="repeat a run with the seed that its verdict printed"),
    argument("-k", dest="expression", metavar="EXPR", help="run only the check of this number or name"),
    flag("-v", "--verbose", help="a line a check, and every failure in full"),
    flag("-x", dest="exitfirst", help="stop at the first check that fails"),
    flag("--sandbox", help="run the attempt under bubblewrap too (Linux)"),
    flag("--pdb", help="debug the attempt where it first fails; unjudged"),
    file("--html", "write a page with pictures of what failed to FILE"),
    file("--repro", "write the first failing call to FILE as a script"),
    file("--share", "write a card to share to FILE, an SVG"),
    NO_RECORD,
    examples=(
        ("rope", "katas/positions/rope.py"),
        ("attention --tier core", "a track, values and gradients only"),
        ("rope --attempt ~/my_rope.py", "a file of yours, as rope"),
        ("rope gqa --attempt ~/ada --junit ada.xml", "files of a folder, for a CI"),
        ("rope --seed 1234", "the run of that seed again"),
        ("all --json verdict.json", "everything, for a program to read"),
    ),
    remark="exit status: 0 when every kata named passed, 1 when one did not, "
    "2 for a wrong command line or missing file",
    listed="Grade your attempts: a kata, a track or all (-- rope; -- --help for the options).",
)
def grade(args: argparse.Namespace) -> int:
    if args.attempt is not None and len(args.names) != 1 and not args.attempt.is_dir():
        raise Misused("--attempt needs the one NAME that the file is to be graded as")
    if args.share is not None and len(args.names) != 1:
        raise Misused("--share needs the one NAME that the card is about")
    given = {"--tier": args.tier, "-k": args.expression, "-x": args.exitfirst, "--stage": args.stage}
    given |= {"--pdb": args.pdb, "--solution": args.solution}
    part = [word for word, value in given.items() if value]
    if args.step and (part or len(args.names) != 1):
        raise Misused(f"--step is of one kata: {'leave out ' if part else 'name it'}{' and '.join(part)}")
    if args.share is not None and part:
        raise Misused(f"--share is for all checks of a file of yours: leave out {' and '.join(part)}")
    if args.github and str(args.json) == "-":
        raise Misused("--github prints to standard output, which `--json -` has to itself: name a file there")
    from dojo.cli.grade import main

    return main(args)


@command(
    SOLVE,
    "grade on every save, from a process that stays",
    KATA,
    argument("--seed", type=int, metavar="N", help="the inputs of this seed"),
    NO_RECORD,
    examples=(("rope", ""),),
    listed="Grade on every save (-- rope).",
)
def watch(args: argparse.Namespace) -> int:
    from dojo.cli import watch

    return watch.main(args)


@command(
    SOLVE,
    "open the page in the browser: statement, editor and verdict",
    argument("--port", type=positive, metavar="N", help="the port; the first free one from 8610 when left out"),
    argument(
        "--host", metavar="ADDRESS", help="answer other machines too, on this address; attempts then run in the sandbox"
    ),
    flag("--no-open", help="only print the address"),
    examples=(("", ""), ("--no-open", "on a machine without a screen")),
    listed="Open the page in the browser: statement, editor and verdict.",
    extras={"": "web"},
)
def web(args: argparse.Namespace) -> int:
    from dojo.web import server

    return server.main(args)


@command(
    SOLVE,
    "open the next stage of an interview in your file",
    KATA,
    examples=(("gpt_screen", "adds its prompt and signatures; what you wrote stays"),),
)
def stage(args: argparse.Namespace) -> int:
    from dojo.cli import katas
    from dojo.cli.selection import selected_one

    return katas.open_stage(selected_one(args.name))


@command(
    SOLVE,
    "show one more hint",
    KATA,
    flag("--again", help="start over with the first hint"),
    examples=(("rope", ""), ("rope --again", "")),
)
def hint(args: argparse.Namespace) -> int:
    from dojo.cli import katas
    from dojo.cli.selection import selected_one

    return katas.show_hint(selected_one(args.name), again=args.again)


@command(
    SOLVE,
    "show the solution, once you have passed",
    KATA,
    flag("--spoil", help="even if you have not passed it"),
    flag("--notebook", help="write lessons/NAME.ipynb, figures included"),
    examples=(("rope", ""), ("rope --spoil", ""), ("rope --notebook", "")),
)
def reveal(args: argparse.Namespace) -> int:
    from dojo.cli import katas
    from dojo.cli.selection import selected_one

    return katas.reveal(selected_one(args.name), spoil=args.spoil, as_notebook=args.notebook)


@command(
    SOLVE,
    "start over with a fresh stub; the old attempt is kept",
    argument("names", nargs="+", metavar="NAME", help=WHICH),
    flag("--yes", help="several at once without being asked"),
    examples=(("rope", ""), ("attention", "asks first; --yes for scripts")),
)
def reset(args: argparse.Namespace) -> int:
    from dojo.cli import katas

    return katas.reset(args.names, args.yes)
