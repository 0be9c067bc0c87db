"""What the command does besides grading, at classes of thousands: reading, storing, likening, telling.

    nox -s bench -- class_size [--students 1000,5000] [--katas softmax,rope,gqa] [--out docs/scale.md]

`cohort` itself runs over a folder of synthetic students, in a process of its own for each size. Only the engine is
another one: its results are there at once, verdicts of real gradings by turns, pictures and all. So what is measured
is the one driver's own work, and the tail is what a teacher waits for after the last verdict. Every student's text is
their own: a right attempt or a planted bug of the repository with statements in between that nobody else has, and
each fiftieth is somebody else's with other names. The command runs three times: at first, again with nothing new,
and again with one attempt changed.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from benchmarks import subjects  # noqa: E402
from dojo.cohort import command, copies  # noqa: E402
from dojo.cohort.engine import Engine, Job, Slot  # noqa: E402
from dojo.cohort.records import Result  # noqa: E402
from dojo.content import catalog, files, proofs  # noqa: E402
from dojo.content.master import read_text  # noqa: E402

TITLE = "The command itself"
GRADED = 6  # attempts at each kata, half of them bugs, whose verdicts the students get by turns
OWN = (4, 14)  # statements that a student writes as nobody else does
COPIED = 50  # each so many's attempt is somebody else's
CHANGE = "\nchanged = True\n"
RUNS = ("at first", "nothing new", "one changed")


def main() -> int:
    """Measure each size in a process of its own, and say it all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--students", default="1000,5000", metavar="NUMBERS", help="1000,5000")
    parser.add_argument("--katas", default="softmax,rope,gqa", metavar="NAMES", help="softmax,rope,gqa")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the findings into this page")
    parser.add_argument("--measure", type=Path, metavar="FOLDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    names = args.katas.split(",")
    if args.measure:
        print(json.dumps(measured(int(args.students), names, args.measure)))
        return 0
    sizes = [int(number) for number in args.students.split(",")]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        files.write_atomic(Path(folder, "verdicts.json"), json.dumps(verdicts(names)))
        for size in sizes:
            hand_in(size, names, Path(folder, f"class of {size}", "in"))
            line = [sys.executable, __file__, "--students", str(size), "--katas", args.katas, "--measure", folder]
            done = subprocess.run(line, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True)
            found[size] = json.loads(done.stdout.splitlines()[-1])
            print(*told_of(size, found[size]), sep="\n", flush=True)
    if args.out:
        words = f"--students {args.students} --katas {args.katas}"
        subjects.write_section(args.out, TITLE, told(words, len(names), found))
    return 0


def verdicts(names: list[str]) -> dict[str, list[dict]]:
    """Real verdicts on attempts at each kata, right ones and bugs by turns."""
    from dojo.grading.options import Entry, Options
    from dojo.grading.run import run
    from dojo.judge.fork_server import ForkServer

    found: dict[str, list[dict]] = {}
    server = ForkServer()
    try:
        for name in names:
            kata = catalog.one(name)
            for text in itertools.islice(bases(name), GRADED):
                (verdict,) = run([Entry(kata, text, f"{name}.py", "")], Options(7), server)
                found.setdefault(name, []).append(verdict.to_json(pictures=True))
    finally:
        server.close()
    return found


def bases(name: str) -> Iterator[str]:
    """Right attempts and planted bugs by turns, without end."""
    kata = catalog.one(name)
    solution = read_text(kata.master)
    right = itertools.cycle(subjects.attempts(kata).values())
    wrong = itertools.cycle([bug.plant(solution) for bug in proofs.bugs(kata) if bug.fits(solution)])
    return itertools.chain.from_iterable(zip(right, wrong, strict=False))


def hand_in(count: int, names: list[str], folder: Path) -> None:
    """A folder for each student, with a file for each kata."""
    drawn = random.Random(11)
    for name in names:
        texts: list[str] = []
        for number, base in zip(range(count), bases(name), strict=False):
            copied = texts and number % COPIED == 0
            texts.append(renamed(drawn.choice(texts), number) if copied else varied(base, drawn))
            path = folder / f"student {number:05}" / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[-1], "utf-8")


def varied(source: str, drawn: random.Random) -> str:
    """The same with statements of somebody's own in its functions."""
    lines = source.splitlines()
    inside = [n for n, line in enumerate(lines) if re.match(r" +\S.* = [^(]*$|    return \w", line)] or [len(lines)]
    for at in sorted(drawn.choices(inside, k=drawn.randint(*OWN)), reverse=True):
        margin = re.match(" *", lines[at])[0] if at < len(lines) else ""
        lines.insert(at, f"{margin}own = {expression(drawn, 3)}")
    return "\n".join(lines) + "\n"


def expression(drawn: random.Random, depth: int) -> str:
    """A random expression of tensors."""
    if not depth:
        return drawn.choice(["x", "y[0]", "z.T", "-x", f"{drawn.randint(2, 99)}", "x.shape[-1]"])
    one, other = expression(drawn, depth - 1), expression(drawn, depth - 1)
    sign = drawn.choice(["+", "-", "*", "/", "@", "<", "**"])
    call = drawn.choice(["sum", "mean", "flatten", "exp", "float", "unsqueeze", "amax", "clone", "abs", "sqrt"])
    return drawn.choice([f"({one} {sign} {other})", f"({one}).{call}({drawn.randint(0, 9)})", f"[{one}, {other}]"])


def renamed(source: str, number: int) -> str:
    return re.sub(r"\bown\b", f"mine_{number}", source)


def measured(count: int, names: list[str], where: Path) -> dict[str, Any]:
    """What the three runs of the command took, in seconds by part, and the memory at their ends."""
    import torch  # noqa: F401  (its memory is no matter of the class)

    verdicts = json.loads((where / "verdicts.json").read_text("utf-8"))
    folder = where / f"class of {count}"
    handed_in, out = folder / "in", folder / "out"
    found: dict[str, Any] = {"before": peak(), "runs": []}
    spent: dict[str, float] = {}
    for part in ("_take", "_grade", "_tell"):
        setattr(command, part, timed(part, getattr(command, part), spent))

    ready: list[Ready] = []

    @contextlib.contextmanager
    def engine(args: argparse.Namespace) -> Iterator[Engine]:
        ready.append(Ready(verdicts))
        yield ready[-1]

    command._engine = engine

    def told(kind: str) -> Iterator[Path]:
        return (path for path in out.rglob(f"*.{kind}") if "earlier" not in path.parts)

    words: dict[str, Any] = {"katas": ",".join(names), "submissions": handed_in, "out": out, "again": [], "seed": 1}
    words |= {"attempt_seconds": 180.0, "submission_seconds": 1800.0, "device": "cpu"}
    words |= dict.fromkeys(("watch", "course", "seed_from", "ray", "workers")) | {"against": []}
    for run in RUNS:
        if run == "one changed":
            path = handed_in / f"student {count // 2:05}" / f"{names[0]}.py"
            path.write_text(f"{path.read_text('utf-8')}{CHANGE}", "utf-8")
        begun = time.time() - 0.01  # a file system's clock may be behind
        with contextlib.redirect_stdout(sys.stderr):
            command.main(argparse.Namespace(**words))
        written = sum(path.stat().st_mtime >= begun for kind in ("csv", "html", "md", "json") for path in told(kind))
        spent["_grade"] -= ready[-1].elsewhere
        found["runs"].append(spent | {"memory": peak(), "written": written})
    return found


def timed(part: str, run: Callable[..., Any], spent: dict[str, float]) -> Callable[..., Any]:
    def around(*args: Any) -> Any:
        begun = time.perf_counter()
        try:
            return run(*args)
        finally:
            spent[part] = time.perf_counter() - begun

    return around


def peak() -> float:
    """The most memory that this process ever had, in MiB; `getrusage` would count its parent's before `exec` too."""
    state = Path("/proc/self/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", state)[0]) / 1024


class Ready:
    """An engine whose results are there at once."""

    def __init__(self, verdicts: dict[str, list[dict]]) -> None:
        self.idle: list[Slot] = [_Slot() for _ in range(16)]
        self.verdicts, self.katas = verdicts, catalog.katas()
        self.elsewhere = 0.0  # seconds of what is not the driver's own

    def ready(self) -> list[Slot]:
        return []

    def done(self, busy: list, seconds: float) -> list[tuple[Slot, Result | str]]:
        return [(slot, self._result(slot.job)) for slot in busy]

    def _result(self, job: Job) -> Result:
        one, turns = job.submitted, self.verdicts[job.submitted.kata]
        verdict = turns[(int(one.student.split()[-1]) + one.source.endswith(CHANGE)) % len(turns)]
        begun = time.perf_counter()
        prints = copies.prints(one.source, self.katas[one.kata])  # as a grading process does
        self.elsewhere += time.perf_counter() - begun
        return Result(one, verdict | {"attempt": one.path}, prints=prints)

    def close(self) -> None:
        pass


class _Slot:
    job: Job

    def begin(self, job: Job) -> None:
        self.job = job

    def end(self) -> None:
        pass


def told_of(size: int, found: dict[str, Any]) -> list[str]:
    """The rows of one size."""
    rows = []
    for run, took in zip(RUNS, found["runs"], strict=True):
        cells = [f"{size:,}", run, *(f"{took[part]:.1f}" for part in ("_take", "_grade", "_tell"))]
        cells += [f"{took['written']:,}", f"{took['memory'] - found['before']:.0f}"]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def told(words: str, katas: int, found: dict[int, dict[str, Any]]) -> str:
    """The findings as a section of a page."""
    lines = [
        f"Written by `nox -s bench -- class_size {words} --out docs/scale.md` on {os.cpu_count()} processors, of which "
        f"the command uses one. Synthetic students with {katas} katas each, every text their own; verdicts of real "
        "gradings that are there at once, so what is counted is all that the command does besides grading. The tail is "
        "what a teacher waits for after the last verdict: copies, tables, the class page, feedback. Memory is the "
        "most of the one process, without what Python and PyTorch take.",
        "",
        "| students | run | read, s | hand out and store, s | tail, s | files written | most memory more, MiB |",
        "|--:|---|--:|--:|--:|--:|--:|",
    ]
    return "\n".join([*lines, *(row for size, each in found.items() for row in told_of(size, each))])


if __name__ == "__main__":
    sys.exit(main())
