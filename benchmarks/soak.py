"""How often the graders err: right attempts and known bugs, over and over, with fresh inputs on a loaded machine.

    nox -s soak -- [KATA ...] [--solution 500] [--attempts 200] [--bugs 50] [--load 2] [--out soak.json]

Every solution, every file of tests/attempts and every known bug is graded that many times while other processes keep
the cores busy and press on memory. A right attempt that is rejected and a bug that passes are written down with their
seeds, and so are the margins: the worst error of a right attempt (it should be below 0.3 of what is allowed) and the
mildest of a bug that changes values (above 10 times that). The file is written as it goes; the same file again goes on.
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
from dojo import abreast, build, catalog, grade, hunt, store  # noqa: E402
from dojo.judge import nursery  # noqa: E402

BUSY = "while True: pass"
PRESS = "import sys; block = bytearray(int(sys.argv[1]) << 20)\nwhile True: block[::4096] = b'x' * len(block[::4096])"
SAVE_EVERY = 30.0  # seconds
Item = tuple[str, str, str, int]  # kata, what it is, its source, seed


def runs_of(kata: catalog.Kata, runs: argparse.Namespace) -> Iterator[tuple[str, str, int]]:
    """What is graded as this kata: what it is, its source, and how many times."""
    master = build.read_text(kata.master)
    yield "solution", master, runs.solution
    for name, source in subjects.attempts(kata).items():
        yield f"attempt {name}", source, runs.attempts
    for bug in hunt.bugs_of(kata):
        yield f"bug {bug.name}", bug.plant(master), runs.bugs


def graded(item: Item, zygote: nursery.Zygote) -> tuple[Item, str, list[str], float, int]:
    """The item with its verdict, the checks that failed, the largest error, and how many checks were undecided."""
    name, what, source, seed = item
    options = grade.Options(seed, diagnose=False, stop_at_first=what.startswith("bug "))
    verdict = grade.run([grade.Entry(catalog.katas()[name], source, "attempt.py", "")], options, zygote)[0]
    failed = [check.name for check in verdict.checks if not check.outcome.harmless]
    return item, verdict.verdict, failed, verdict.used, sum(c.outcome == "undecided" for c in verdict.checks)


def plan(katas: list[catalog.Kata], args: argparse.Namespace, book: dict) -> list[Item]:
    """What is still to be done, a run of everything before the second of anything."""
    items = []
    for kata in katas:
        for what, source, runs in runs_of(kata, args):
            done = book.get(kata.name, {}).get(what, {}).get("runs", 0)
            items += [(number, (kata.name, what, source, args.first_seed + number)) for number in range(done, runs)]
    return [item for _, item in sorted(items, key=lambda pair: pair[0])]


def note(book: dict, result: tuple) -> str:
    """Write a result down; returns what is wrong with it, if anything."""
    (name, what, _, seed), verdict, failed, used, undecided = result
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
    """A Markdown table: runs, wrong verdicts and margins by kata."""
    lines = [
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
    args = parser.parse_args()
    book = json.loads(args.out.read_text("utf-8")) if args.out.exists() else {}
    items = plan(subjects.chosen(parser, args.names), args, book)
    load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(args.load)]
    load += [subprocess.Popen([sys.executable, "-c", PRESS, str(args.press)])] if args.press else []
    zygote, saved, done = nursery.Zygote(), time.monotonic(), 0
    grade.import_all()

    def finished(result: tuple) -> None:
        nonlocal saved, done
        done += 1
        said = note(book, result)
        if said:
            print(f"\nwrong: {said}", flush=True)
        print(f"\r{done} of {len(items)}, now {result[0][0]} ".ljust(60), end="", file=sys.stderr, flush=True)
        if time.monotonic() - saved > SAVE_EVERY:
            store.write_atomic(args.out, json.dumps(book, indent=1) + "\n")
            saved = time.monotonic()

    try:
        with abreast.Crew(graded, zygote, abreast.processors()) as crew:
            crew.map(items, finished)
    except KeyboardInterrupt:
        print("\ninterrupted: the same command goes on from here", flush=True)
    finally:
        for process in load:
            process.kill()
        zygote.close()
        store.write_atomic(args.out, json.dumps(book, indent=1) + "\n")
    print("\n" + "\n".join(summary(book)))
    print(f"\nwritten to {args.out}")
    return 1 if any(page["wrong"] for pages in book.values() for page in pages.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
