"""What a kata costs: lines written by hand, by part, and processor seconds of its proof.

    python benchmarks/price.py [KATA ...] [--proof]

Lines count as they stand in the files, blank ones too: the master, the contract, the wrong answers, the right ones, and
those of the field. With `--proof` each kata's tests are run, alone and on one processor, and
the processor seconds of all their processes are told, without what starting pytest and the judge takes once for all
katas. Stubs and notebooks are made from the masters and cost nothing.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from benchmarks import subjects  # noqa: E402
from dojo.content import catalog  # noqa: E402
from dojo.content.catalog import Kata  # noqa: E402

PARTS = ("master", "contract", "wrong", "right", "field")


def main() -> int:
    """Print a row for each kata, and the mean."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="KATA", help="a kata, a track or `all`")
    parser.add_argument("--proof", action="store_true", help="run the tests of each kata and tell what they take")
    args = parser.parse_args()
    katas = subjects.chosen(parser, args.names)
    heads = [*PARTS, "lines", *(["proof s"] if args.proof else [])]
    print(f"{'kata':<20}" + "".join(f"{head:>12}" for head in heads))
    start = seconds_of("test_stub_is_not_started and kata_softmax_") if args.proof else 0.0
    rows = []
    for kata in katas:
        row = [*lines(kata).values()]
        row.append(sum(row))
        row += [seconds_of(tests_of(kata)) - start] if args.proof else []
        rows.append(row)
        print(f"{kata.name:<20}" + "".join(_cell(value) for value in row), flush=True)
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    print(f"{'mean':<20}" + "".join(_cell(value) for value in means))
    return 0


def lines(kata: Kata) -> dict[str, int]:
    """The hand-written lines of a kata by part."""
    parts = {
        "master": [kata.master],
        "contract": [kata.grader],
        "wrong": [kata.proofs / "wrong.txt", *kata.proofs.glob("wrong/*.py")],
        "right": [*kata.proofs.glob("right.txt"), *kata.proofs.glob("right/*.py")],
        "field": [*kata.proofs.glob("field/*.py")],
    }
    return {part: _count(paths) for part, paths in parts.items()}


def tests_of(kata: Kata) -> str:
    """The expression that chooses the tests of a kata, and not those of one whose name begins with its name."""
    longer = [name for name in catalog.katas() if name.startswith(f"{kata.name}_")]
    return " and not ".join(f"kata_{name}_" for name in (kata.name, *longer))


def seconds_of(chosen: str) -> float:
    """Processor seconds of the tests of katas that an expression chooses, those of their workers included."""
    before = _children()
    words = ["-m", "pytest", "tests/test_graders.py", "-p", "no:xdist", "-k", chosen]
    done = subprocess.run([sys.executable, *words], cwd=PROJECT, capture_output=True, text=True, env=os.environ)
    if done.returncode:
        sys.exit(f"tests fail, of {chosen}:\n{done.stdout[-2000:]}")
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _count(paths: object) -> int:
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def _cell(value: float) -> str:
    return f"{value:>12.1f}" if isinstance(value, float) else f"{value:>12}"


if __name__ == "__main__":
    sys.exit(main())
