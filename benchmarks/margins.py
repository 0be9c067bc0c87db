"""How far right attempts and known bugs are from the error budget, and how often a right attempt is rejected.

    python benchmarks/margins.py [KATA ...] [--seeds 20] [--load 2] [--tier core]

Grades the solution and every file of tests/attempts with fresh seeds, optionally while other processes keep the cores
busy, and each known bug once. The worst right attempt should use less than 0.3 of the budget, and the mildest bug that
changes values more than 10 times the budget; bugs that change no value (a dtype, an error, a count) are told apart
otherwise.
"""

from __future__ import annotations

import argparse
import importlib.util
import math
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from dojo import build, catalog, grade  # noqa: E402
from dojo.judge import nursery  # noqa: E402
from dojo.verdict import Verdict  # noqa: E402

BUSY = "while True: pass"


def right_attempts(kata: catalog.Kata) -> dict[str, str]:
    """Sources of the solution and of the right attempts of a kata, by name."""
    files = sorted((PROJECT / "tests" / "attempts" / kata.name).glob("*.py"))
    return {"solution": build.read_text(kata.master)} | {path.stem: path.read_text("utf-8") for path in files}


def bugs(kata: catalog.Kata) -> dict[str, str]:
    """Sources of the known bugs of a kata, by name."""
    spec = importlib.util.spec_from_file_location(f"grader_{kata.name}", kata.grader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    master = build.read_text(kata.master)
    return {bug.name: bug.plant(master) for bug in module.BUGS}


def main() -> int:
    """Print a line a kata; returns 1 if a right attempt was rejected or a bug passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA")
    parser.add_argument("--seeds", type=int, default=20, help="runs of each right attempt")
    parser.add_argument("--load", type=int, default=0, metavar="N", help="processes that keep cores busy meanwhile")
    parser.add_argument("--tier", choices=["core", "robust", "fast"])
    parser.add_argument("--first-seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(args.load)]
    zygote = nursery.Zygote()

    def verdict(kata: catalog.Kata, source: str, seed: int) -> Verdict:
        options = grade.Options(seed, args.tier, diagnose=False)
        return grade.run([grade.Entry(kata, source, "attempt.py", "")], options, zygote)[0]

    bad = 0
    try:
        for kata in catalog.select(args.names):
            runs, rejected, worst, undecided = 0, 0, 0.0, 0
            for name, source in right_attempts(kata).items():
                for seed in range(args.first_seed, args.first_seed + args.seeds):
                    print(f"\r{kata.name} {name} seed {seed}".ljust(70), end="", file=sys.stderr, flush=True)
                    found = verdict(kata, source, seed)
                    runs, worst = runs + 1, max(worst, found.used)
                    undecided += sum(check.outcome == "undecided" for check in found.checks)
                    if found.verdict != "passed":
                        rejected += 1
                        failed = [check.name for check in found.checks if not check.outcome.harmless]
                        print(f"\nrejected: {kata.name} {name} --seed {seed}: {failed}", flush=True)
            passed, errors = [], []
            for name, source in bugs(kata).items():
                found = verdict(kata, source, args.first_seed)
                passed += [name] if found.verdict == "passed" else []
                errors += [found.used] if found.used > 1 else []
            bad += rejected + len(passed)
            mildest = min(errors, default=math.inf)
            print(
                f"\r{kata.name:12} right: {runs} runs, {rejected} rejected, {undecided} undecided, worst {worst:.3f} "
                f"of the budget; bugs: {len(bugs(kata))}, {len(passed)} passed, mildest {mildest:.3g} × the budget",
                flush=True,
            )
    finally:
        zygote.close()
        for process in load:
            process.kill()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
