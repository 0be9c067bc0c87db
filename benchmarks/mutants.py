"""Mutation testing of the graders, as a page: which one-place mutants of the solutions a grader lets through.

    nox -s mutants -- [KATA ...] [--seed 1] [--out docs/mutants.md]

Each mutant changes one operator, constant, keyword, call or statement of a solution (`dojo.proving.mutants`). Every
survivor is shown with its line and, where a row marked `[equivalent]` explains it, with the reason.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import torch  # noqa: E402

from benchmarks import subjects  # noqa: E402
from dojo.content import files  # noqa: E402
from dojo.grading import parallel  # noqa: E402
from dojo.judge.fork_server import ForkServer  # noqa: E402
from dojo.proving.mutants import Tally, tally  # noqa: E402


def table(rows: list[Tally]) -> str:
    """What was found, in Markdown."""
    lines = ["| kata | mutants | rejected | equivalent | unexplained |", "|---|---|---|---|---|"]
    for row in rows:
        lines.append(f"| `{row.kata}` | {row.made} | {row.rejected} | {len(row.explained)} | {len(row.unexplained)} |")
    made, rejected = sum(row.made for row in rows), sum(row.rejected for row in rows)
    explained, left = sum(len(row.explained) for row in rows), sum(len(row.unexplained) for row in rows)
    lines.append(f"| all | {made} | {rejected} | {explained} | {left} |")
    share = 100 * rejected / max(1, made - explained)
    return "\n".join(lines) + f"\n\nOf the mutants that are mistakes, {share:.1f}% are rejected.\n"


def page(rows: list[Tally], command: str) -> str:
    """The table with all survivors, as a page of the documentation."""
    head = f"# Mutants of the solutions\n\nMade by `{command}`, torch {torch.__version__}.\n\n{table(rows)}"
    parts = []
    for row in rows:
        lines = [f"- `{line}`: **unexplained**" for _, line in row.unexplained]
        lines += [f"- `{line}`: {reason}" for line, reason in row.explained]
        parts += [f"\n## {row.kata}\n\n" + "\n".join(lines) + "\n"] if lines else []
    return head + "".join(parts)


def main() -> int:
    """Grade all mutants; returns 1 if one survives that no grader explains."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA", help="katas or tracks; all when none is named")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table and the survivors to this file")
    args = parser.parse_args()
    chosen = subjects.chosen(parser, args.names)
    server = ForkServer()
    parallel.import_all()
    rows: list[Tally] = []
    for kata in chosen:

        def tell(at: int, of: int, name: str = kata.name) -> None:
            print(f"\r{name} {at}/{of} ", end="", file=sys.stderr, flush=True)

        rows.append(row := tally(kata, server, args.seed, tell))
        print(f"\r{kata.name:20} {row.rejected:4} of {row.made:4} rejected, {len(row.explained)} equivalent")
        for number, line in row.unexplained:
            print(f"    survives: {kata.say(kata.master)}:{number}: {line}", flush=True)
    server.close()
    print("\n" + table(rows))
    if args.out:
        files.write_atomic(args.out.resolve(), page(rows, f"nox -s mutants -- {' '.join(sys.argv[1:])}"))
    return 1 if any(row.unexplained for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
