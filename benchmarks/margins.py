"""How near right attempts come to the error budget, over thousands of inputs: no worker, values and gradients alone.

    python benchmarks/margins.py [KATA ...] [--seeds 1000] [--dtype float32]

Every case that is graded in this dtype is drawn with each seed, and the solution and the right attempts are
held to the budget as a grading would hold them. The table tells the largest error in units of the allowed one, by kata,
case and attempt, worst first; it should stay below 0.3, and whatever is above 1 is a right attempt rejected.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import torch  # noqa: E402

from benchmarks import subjects  # noqa: E402
from dojo.judge.fork_server import ForkServer  # noqa: E402
from dojo.proving.margins import MOST, Job, Worst, measure  # noqa: E402


def main() -> int:
    """Print what comes nearest; returns 1 if anything is above the budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "float16", "bfloat16"])
    args = parser.parse_args()
    chosen, seeds = subjects.chosen(parser, args.names), range(args.first_seed, args.first_seed + args.seeds)
    found: list[tuple[float, str]] = []
    calm: dict[str, float] = {}

    def finished(result: tuple[Job, Worst]) -> None:
        (kata, name, case, *_), worst = result
        for (who, value), (used, seed, above) in worst.items():
            calm[kata.name] = max(calm.get(kata.name, 0.0), used)
            if used > MOST:
                line = f"{kata.name} {name} {case}, {who}: {value} {used:.3g} (seed {seed}), {above} above 1"
                found.append((used, line))
        print(f"\r{kata.name} {case} ".ljust(70), end="", file=sys.stderr, flush=True)

    server = ForkServer()
    measure(chosen, seeds, getattr(torch, args.dtype), server, finished)
    server.close()
    print()
    for _, line in sorted(found, reverse=True):
        print(line)
    print("\n".join(f"{kata:20} {used:.3f}" for kata, used in calm.items()))
    return 1 if any(used > 1 for used, _ in found) else 0


if __name__ == "__main__":
    sys.exit(main())
