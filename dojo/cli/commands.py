"""The commands: what each is for, what it takes and what it calls. The work is imported when its command runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

from dojo.cli import arguments
from dojo.content.catalog import typed

SOLVE, PRACTISE, NOTEBOOKS = "Solve a kata", "Practise for the interview", "Notebooks"
TEACH, MAINTAIN = "Teach a class", "Work on the project"


class Command(NamedTuple):
    """One command: its heading, what it does in a line, its arguments, how it runs, and examples with a remark."""

    heading: str
    help: str
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.ArgumentParser, argparse.Namespace], int]
    examples: tuple[tuple[str, str], ...] = ()
    remark: str = ""


def _grade(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.attempt is not None and len(args.names) != 1 and not args.attempt.is_dir():
        parser.error("--attempt needs the one NAME that the file is to be graded as")
    if args.share is not None and len(args.names) != 1:
        parser.error("--share needs the one NAME that the card is about")
    part = [word for word, given in (("--tier", args.tier), ("-k", args.expression), ("-x", args.exitfirst)) if given]
    part += [word for word, given in (("--pdb", args.pdb), ("--solution", args.solution)) if given]
    if args.share is not None and part:
        parser.error(f"--share is for all checks of a file of yours: leave out {' and '.join(part)}")
    if args.github and str(args.json) == "-":
        parser.error("--github prints to standard output, which `--json -` has to itself: name a file there")
    from dojo.cli.grade import main

    return main(args)


def _list(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.cli import katas

    return katas.show_list()


def _show(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.cli import katas
    from dojo.cli.selection import selected_one

    return katas.show_statement(selected_one(args.name))


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


def _prove(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.content import catalog
    from dojo.grading.options import fresh_seed
    from dojo.proving import prove

    seed = fresh_seed(args.seed)
    return max(prove.main(kata, args.only, seed) for kata in catalog.select(args.names))


def _build(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.content import build, catalog, master

    clean, said = build.build(check=args.check)
    print("\n".join(said or ["stubs and notebooks are what the masters give"]))
    if not args.check:
        return 0
    from dojo.grading import claims

    found = catalog.katas().values()
    loose = [end for kata in found for end in claims.loose_ends(kata)]
    print("\n".join([*loose, f"{len(loose)} claims without a check or checks without a claim"]))
    faults = [fault for kata in found for fault in master.question_faults(kata)]
    print("\n".join([*faults, f"{len(faults)} faults of the questions of interviewers"]))
    return 0 if clean and not loose and not faults else 1


def _sync(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.source and not args.names:
        parser.error("--from overwrites the other side, so it needs the NAMEs it is meant for")
    from dojo.cli.selection import selected
    from dojo.content import sync
    from dojo.verdict.screen.text import filled

    status, quiet = 0, True
    for kata in selected(args.names):
        try:
            said = sync.sync(kata, args.source)
        except sync.SyncError as error:  # one pair in trouble must not keep the others from their turn
            said, status = None, 1
            print(filled(f"dojo: {error}", sys.stderr), file=sys.stderr)
        if said:
            quiet = False
            print(filled(said, sys.stdout), flush=True)
    if quiet and status == 0:
        print("scripts and notebooks agree")
    return status


def _mock(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if args.track and (args.names or args.random):
        parser.error("--track chooses the katas: leave out NAME and --random")
    from dojo.practice.interview import mock

    return mock.main(args)


def _quiz(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.practice.interview import quiz

    return quiz.main(args)


def _hunt(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.practice.hunt import bug_hunt

    return bug_hunt.main(args)


def _watch(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.cli import watch

    return watch.main(args)


def _next(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.practice import history

    return history.show_next(args)


def _plan(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if (args.date is None) != (args.hours is None):
        parser.error("--date and --hours go together, as in --date 2026-12-10 --hours 6")
    if args.clear and args.date:
        parser.error("--clear forgets the plan, so it takes no --date")
    if args.date is None and (args.known or args.target != "all"):
        parser.error("--for and --known are for a new plan, which needs --date and --hours")
    from dojo.cli import katas

    return katas.plan(args)


def _history(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if (args.diff or args.restore) and not args.name:
        parser.error("--diff and --restore need the NAME of a kata")
    from dojo.cli.selection import selected_one
    from dojo.practice import history

    if args.name:
        selected_one(args.name)
    return history.main(args)


def _starter(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.cohort.outputs.starter import autograder, repository

    if args.autograder is None and (args.course or args.wheels or args.index):
        parser.error("--course, --wheels and --index are an autograder's: name it with --autograder FILE")
    return autograder.main(args) if args.autograder else repository.main(args)


def _report(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    from dojo.practice import report

    return report.main(args)


def _cohort(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    if (args.submissions is None) == (args.watch is None):
        parser.error("name the SUBMISSIONS, or with --watch the folder that they arrive in")
    from dojo.cohort import command

    return command.main(args)


COMMANDS = {
    "list": Command(SOLVE, "list the katas by track, and how your attempts stand", arguments.nothing, _list),
    "show": Command(SOLVE, "show what a kata asks for", arguments.show, _show, (("rope", ""),)),
    "grade": Command(
        SOLVE,
        "grade your attempts, or any file",
        arguments.grade,
        _grade,
        (
            ("rope", "katas/positions/rope.py"),
            ("attention --tier core", "a track, values and gradients only"),
            ("rope --attempt ~/my_rope.py", "a file of yours, as rope"),
            ("rope gqa --attempt ~/ada --junit ada.xml", "files of a folder, for a CI"),
            ("rope --seed 1234", "the run of that seed again"),
            ("all --json verdict.json", "everything, for a program to read"),
        ),
        "exit status: 0 when every kata named passed, 1 when one did not, 2 for a wrong command line or missing file",
    ),
    "watch": Command(SOLVE, "grade on every save, from a process that stays", arguments.watch, _watch, (("rope", ""),)),
    "hint": Command(SOLVE, "show one more hint", arguments.hint, _hint, (("rope", ""), ("rope --again", ""))),
    "reveal": Command(
        SOLVE,
        "show the solution, once you have passed",
        arguments.reveal,
        _reveal,
        (("rope", ""), ("rope --spoil", ""), ("rope --notebook", "")),
    ),
    "reset": Command(
        SOLVE,
        "start over with a fresh stub; the old attempt is kept",
        arguments.reset,
        _reset,
        (("rope", ""), ("attention", "asks first; --yes for scripts")),
    ),
    "next": Command(PRACTISE, "say what to practise now", arguments.next, _next),
    "plan": Command(
        PRACTISE,
        "spread the katas over the days until your interview",
        arguments.plan,
        _plan,
        (
            ("--date 2026-12-10 --hours 6", "make it; `next` follows it"),
            ("--date 2026-12-10 --hours 6 --for inference --known rope,gqa", "more of what they ask, less of yours"),
            ("", "what is done"),
            ("--clear", "forget it"),
        ),
    ),
    "mock": Command(
        PRACTISE,
        "hold a mock interview against the clock",
        arguments.mock,
        _mock,
        (
            ("rope --minutes 25", ""),
            ("rope --real", "no verdict before the end, no hints"),
            ("--track attention --minutes 60", "several, with breaks"),
            ("--random 2 --level 2", ""),
            ("--resume", "the one that was cut off"),
            ("rope --explain", "what is asked afterwards"),
        ),
    ),
    "quiz": Command(
        PRACTISE,
        "answer what interviewers ask next, when it is due",
        arguments.quiz,
        _quiz,
        (("", "two minutes of what is due"), ("rope", "of this kata, new ones too"), ("rope --all", "")),
    ),
    "hunt": Command(
        PRACTISE,
        "find the bugs that are planted in a solution",
        arguments.hunt,
        _hunt,
        (
            ("mha", ""),
            ("mha --bugs 3", "three that do not hide each other"),
            ("mha --with-test", "and a test that would have caught it"),
            ("--random --yes", "even one not passed"),
        ),
    ),
    "history": Command(
        PRACTISE,
        "list, compare and restore earlier attempts",
        arguments.history,
        _history,
        (("rope", ""), ("rope --diff 1 4", ""), ("rope --restore 4", ""), ("--export attempts.jsonl", "")),
    ),
    "report": Command(PRACTISE, "write a page about all of your practice", arguments.report, _report),
    "sync": Command(
        NOTEBOOKS,
        "make scripts and notebooks agree",
        arguments.sync,
        _sync,
        (("", ""), ("rope --from notebook", "")),
    ),
    "starter": Command(
        TEACH,
        "write a repository that grades every push, or a Gradescope autograder",
        arguments.starter,
        _starter,
        (
            ("--katas gqa,rope --out class", "a repository"),
            ("--katas gqa,rope --autograder autograder.zip --course course.toml", "for Gradescope"),
        ),
    ),
    "cohort": Command(
        TEACH,
        "grade a whole class: submissions in, results, feedback and a page out",
        arguments.cohort,
        _cohort,
        (
            ("submissions/ --katas gqa,rope", "results/ then holds it all; the same again grades what is new"),
            ("class.zip --katas attention --course course.toml", "with points, deadlines, a roster"),
            ("submissions/ --ray auto", "on a Ray cluster"),
        ),
        "exit status: 0 when everything has a result, 130 when it was stopped on the way",
    ),
    "build": Command(
        MAINTAIN, "make stubs and notebooks from the masters", arguments.build, _build, (("", ""), ("--check", ""))
    ),
    "prove": Command(
        MAINTAIN,
        "show that a kata's grader is right: right answers pass, wrong ones fail and are named",
        arguments.prove,
        _prove,
        (("rope", "every step"), ("rope --only wrong", "the kill matrix alone")),
        "exit status: 0 when all holds, 1 when something is wrong, which is told as FILE:LINE: what",
    ),
}

# Sessions for those who work on the project.
NOX_ALONE = ("tests", "proof", "attacks", "lint", "bench", "mutants", "soak")


def overview() -> str:
    """What there is to do, what a learner needs first at the top."""
    lines = [
        f"usage: {typed('COMMAND [WORDS]')}",
        "",
        "Katas of the modern language model, with graders whose verdict is right.",
        "Begin with the first:",
        "",
        f"  {typed('grade softmax')}",
    ]
    width = max(map(len, COMMANDS))
    for heading in dict.fromkeys(command.heading for command in COMMANDS.values() if command.heading != MAINTAIN):
        told = {name: command.help for name, command in COMMANDS.items() if command.heading == heading}
        told |= {"lab": "open them in JupyterLab: nox -s lab"} if heading == NOTEBOOKS else {}
        lines += ["", heading, *(f"  {name:{width}}  {what}" for name, what in told.items())]
    hidden = [name for name, command in COMMANDS.items() if command.heading == MAINTAIN]
    lines += ["", MAINTAIN, f"  {', '.join([*hidden, *NOX_ALONE])}: see `nox --list`", ""]
    return "\n".join([*lines, f"`{typed('COMMAND --help')}` explains one."])
