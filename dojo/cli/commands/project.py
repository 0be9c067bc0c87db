"""The commands of somebody who works on the project."""

from __future__ import annotations

import argparse

from dojo.cli.commands.declared import MAINTAIN, argument, command, flag


@command(
    MAINTAIN,
    "make stubs and notebooks from the masters",
    flag(
        "--check",
        help="write nothing; say what is stale and what a statement, its lesson, checks or questions lack; "
        "then exit with 1",
    ),
    examples=(("", ""), ("--check", "")),
)
def build(args: argparse.Namespace) -> int:
    from dojo.content import build, catalog, lessons, master

    clean, messages = build.build(check=args.check)
    print("\n".join(messages or ["stubs and notebooks are what the masters give"]))
    if not args.check:
        return 0
    from dojo.grading import topics

    found = catalog.katas().values()
    faults = {
        "faults of statements": [fault for kata in found for fault in master.statement_faults(kata)],
        "faults of lessons": [fault for kata in found for fault in lessons.faults(kata)],
        "topics without a check, or checks without a topic": [end for kata in found for end in topics.faults(kata)],
        "faults of the questions of interviewers": [fault for kata in found for fault in master.question_faults(kata)],
    }
    for what, each in faults.items():
        print("\n".join([*each, f"{len(each)} {what}"]))
    return 0 if clean and not any(faults.values()) else 1


@command(
    MAINTAIN,
    "draw the figures of the lessons, those that are stale or all that are named",
    argument("names", nargs="*", metavar="NAME", help="a kata, a track or `all`"),
    examples=(("", "what the masters have changed"), ("rope", "")),
    listed="Draw the figures of the lessons that changed (-- rope draws that one anyway).",
    extras={"": "lab"},  # matplotlib
)
def figures(args: argparse.Namespace) -> int:
    from dojo.content import catalog, figures

    return figures.draw_all(catalog.select(args.names), named=bool(args.names))


@command(
    MAINTAIN,
    "show that a kata's grader is right: right answers pass, wrong ones fail and are named",
    argument("names", nargs="+", metavar="NAME", help="a kata, a track or `all`"),
    argument(
        "--only",
        action="append",
        choices=("files", "stub", "lesson", "right", "field", "idiom", "wrong", "mutants", "margins"),
        default=[],
        help="this step alone; may be repeated",
    ),
    argument("--seed", type=int, metavar="N", help="the inputs of this seed; by chance else"),
    examples=(("rope", "every step"), ("rope --only wrong", "the kill matrix alone")),
    remark="exit status: 0 when all holds, 1 when something is wrong, which is told as FILE:LINE: what",
    listed="Show that a kata's grader is right (-- rope).",
)
def prove(args: argparse.Namespace) -> int:
    from dojo.content import catalog
    from dojo.grading.options import fresh_seed
    from dojo.proving import prove

    seed = fresh_seed(args.seed)
    return max(prove.main(kata, args.only, seed) for kata in catalog.select(args.names))


@command(
    MAINTAIN,
    "make the site: what the katas ask for and the docs, as pages to read and search, in site/",
    examples=(("", ""),),
    extras={"": "site"},  # whatever the words are
)
def site(args: argparse.Namespace) -> int:
    import os

    from dojo.content.catalog import ROOT, STARTED_BY
    from dojo.content.site.make import site

    os.environ[STARTED_BY] = "nox"  # the pages speak to those who read them, however they were made
    print(site(ROOT / "site"))
    return 0
