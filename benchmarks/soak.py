"""How often the graders err: right attempts and known bugs, over and over, with fresh inputs on a loaded machine.

    nox -s soak -- [KATA ...] [--solution 500] [--attempts 200] [--bugs 50] [--load 2] [--out soak.json]

Every solution, every right attempt and every known bug is graded that many times, two gradings at once on
each processor, while other processes keep the cores busy and press on memory. A right attempt that is rejected and a
bug that passes are written down with their seeds, and so are the margins: the worst error of a right attempt (up to
0.5 of what is allowed it is told as an upper bound) and the mildest of a bug that changes values (above 10 times that).
The file is written as it goes; the same file again goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from benchmarks import subjects  # noqa: E402
from dojo.content import catalog, files, proofs  # noqa: E402
from dojo.content.master import read_text  # noqa: E402
from dojo.grading import parallel  # noqa: E402
from dojo.grading.options import Entry, Options  # noqa: E402
from dojo.grading.run import run  # noqa: E402
from dojo.judge.fork_server import ForkServer  # noqa: E402
from dojo.judge.pool import WorkerPool, processors  # noqa: E402

BUSY = "while True: pass"
PRESS = "import sys; block = bytearray(int(sys.argv[1]) << 20)\nwhile True: block[::4096] = b'x' * len(block[::4096])"
SAVE_EVERY = 30.0  # seconds
PROCESSES_PER_CORE = 2  # gradings at once on a processor
Item = tuple[str, int, list[tuple[str, str]]]  # kata, seed, and of each subject what it is and its source
Result = tuple[str, str, int, str, list[str], float, int]


def runs_of(kata: catalog.Kata, runs: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """What is graded as this kata: what it is, its source, and how many times."""
    master = read_text(kata.master)
    yield "solution", master, runs.solution
    for name, source in subjects.attempts(kata).items():
        yield f"attempt {name}", source, runs.attempts
    for bug in proofs.bugs(kata):
        yield f"bug {bug.name}", bug.plant(master), runs.bugs


def graded(item: Item, server: ForkServer) -> list[Result]:
    """For each subject: kata, what it is, seed, verdict, the checks that failed, the largest error, checks undecided.

    They have the inputs of a seed in common, so that the oracle need not be asked for each again.
    """
    name, seed, several = item
    results = []
    for what, source in several:
        options = Options(seed, diagnose=False, stop_at_first=what.startswith("bug "))
        verdict = run([Entry(catalog.katas()[name], source, "attempt.py", "")], options, server)[0]
        failed = [f"{check.name}: {check.outcome}" for check in verdict.checks if not check.outcome.harmless]
        undecided = sum(check.outcome == "undecided" for check in verdict.checks)
        results.append((name, what, seed, verdict.verdict, failed, verdict.error_ratio, undecided))
    return results


def plan(katas: list[catalog.Kata], args: argparse.Namespace, book: dict) -> list[Item]:
    """What is still to be done, one seed of every kata before the second of any."""
    items = []
    for kata in katas:
        pages, subjects_of = book.get(kata.name, {}), list(runs_of(kata, args))
        for number in range(max(runs for _, _, runs in subjects_of)):
            due = [(w, source) for w, source, runs in subjects_of if pages.get(w, {}).get("runs", 0) <= number < runs]
            if due:
                items.append((number, (kata.name, args.first_seed + number, due)))
    return [item for _, item in sorted(items, key=lambda pair: pair[0])]


def note(book: dict, result: Result) -> str:
    """Write a result down; returns what is wrong with it, if anything."""
    name, what, seed, verdict, failed, used, undecided = result
    page = book.setdefault(name, {}).setdefault(what, {"runs": 0, "wrong": [], "undecided": 0})
    page["runs"] += 1
    page["undecided"] += undecided
    if what.startswith("bug "):
        wrong = verdict == "passed"
        if used > 1:
            page["mildest"] = min(used, page.get("mildest", math.inf))
    else:
        wrong = verdict != "passed"
        page["worst"] = max(used, page.get("worst", 0.0))
    if wrong:
        page["wrong"].append({"seed": seed, "verdict": verdict, "failed": failed})
    return f"{name}, {what}, seed {seed}: {verdict} {failed}" if wrong else ""


def summary(book: dict) -> list[str]:
    """A Markdown page: runs, wrong verdicts and margins by kata."""
    lines = [
        "# Wrong verdicts on a loaded machine",
        "",
        "Counted by `nox -s soak`: gradings with a fresh seed each, two at once on every processor, beside processes",
        "that keep the processors busy and rewrite memory. Errors are in units of the allowed error.",
        "",
        "| kata | right: runs | rejected | worst error | bugs: runs | passed | mildest error |",
        "|---|---|---|---|---|---|---|",
    ]
    total: Counter[str] = Counter()
    for name, pages in book.items():
        right = [page for what, page in pages.items() if not what.startswith("bug ")]
        bugs = [page for what, page in pages.items() if what.startswith("bug ")]
        runs, wrong = sum(p["runs"] for p in right), sum(len(p["wrong"]) for p in right)
        bug_runs, passed = sum(p["runs"] for p in bugs), sum(len(p["wrong"]) for p in bugs)
        worst = max((p["worst"] for p in right), default=0.0)
        mildest = min((p["mildest"] for p in bugs if "mildest" in p), default=math.inf)
        lines.append(f"| {name} | {runs} | {wrong} | {worst:.3f} | {bug_runs} | {passed} | {mildest:.3g} |")
        total.update(runs=runs, wrong=wrong, bug_runs=bug_runs, passed=passed)
    lines.append(f"| all | {total['runs']} | {total['wrong']} | | {total['bug_runs']} | {total['passed']} | |")
    return lines


def main() -> int:
    """Grade until all is done or interrupted; returns 1 if a verdict was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA", help="katas or tracks; all when none is named")
    parser.add_argument("--solution", type=int, default=500, metavar="N", help="runs of each solution")
    parser.add_argument("--attempts", type=int, default=200, metavar="N", help="runs of each other right attempt")
    parser.add_argument("--bugs", type=int, default=50, metavar="N", help="runs of each known bug")
    parser.add_argument("--load", type=int, default=2, metavar="N", help="processes that keep cores busy meanwhile")
    parser.add_argument("--press", type=int, default=256, metavar="MIB", help="memory that one more keeps rewriting")
    parser.add_argument("--first-seed", type=int, default=1, metavar="N")
    parser.add_argument("--out", type=Path, default=PROJECT / ".dojo" / "soak.json", metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table to this file besides")
    args = parser.parse_args()
    book = json.loads(args.out.read_text("utf-8")) if args.out.exists() else {}
    items = plan(subjects.chosen(parser, args.names), args, book)
    load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(args.load)]
    load += [subprocess.Popen([sys.executable, "-c", PRESS, str(args.press)])] if args.press else []
    server, saved, done, total = ForkServer(), time.monotonic(), 0, sum(len(several) for _, _, several in items)
    parallel.import_all()

    def finished(results: list[Result]) -> None:
        nonlocal saved, done
        done += len(results)
        for said in filter(None, (note(book, result) for result in results)):
            print(f"\nwrong: {said}", flush=True)
        print(f"\r{done} of {total}, now {results[0][0]} ".ljust(60), end="", file=sys.stderr, flush=True)
        if time.monotonic() - saved > SAVE_EVERY:
            files.write_atomic(args.out, json.dumps(book, indent=1) + "\n")
            saved = time.monotonic()

    try:
        with WorkerPool(graded, server, PROCESSES_PER_CORE * processors()) as pool:
            pool.map(items, finished)
    except KeyboardInterrupt:
        print("\ninterrupted: the same command goes on from here", flush=True)
    finally:
        for process in load:
            process.kill()
        server.close()
        files.write_atomic(args.out, json.dumps(book, indent=1) + "\n")
    page = "\n".join(summary(book)) + "\n"
    print("\n" + page)
    if args.page:
        files.write_atomic(args.page.resolve(), page)
    print(f"\nwritten to {args.out}")
    return 1 if any(page["wrong"] for pages in book.values() for page in pages.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
