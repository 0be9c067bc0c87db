"""How often the time checks err on a loaded machine: right attempts called slow, and slow ones let through.

    python benchmarks/clocks.py [KATA ...] [--races 20] [--slow 3] [--load 2] [--device cuda] [--out docs/clocks.md]

While other processes keep the cores busy, each solution and every other right attempt races against the solution as
in a grading, and so does the solution made to do its work over and over, until it took `--slow` times what its limit
allows. Counted are the verdicts. From the share of single pairs that came out over the limit though they were not, by
its upper bound at 95%, follows the probability that the sequential test calls a right attempt slow: a walk of one
step up or down a pair that reaches the upper end before the lower, which a pair clearly within it nears by two. (It
takes pairs as independent: each is drawn and shuffled afresh.)
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median, stdev

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import torch  # noqa: E402

from benchmarks import subjects  # noqa: E402
from benchmarks.soak import BUSY  # noqa: E402
from dojo.content import files  # noqa: E402
from dojo.content.master import read_text  # noqa: E402
from dojo.contracts import Contract, Draw  # noqa: E402
from dojo.contracts.checks.timing import FALSE_ALARM, MISS, P0, P1, Race  # noqa: E402
from dojo.grading import parallel  # noqa: E402
from dojo.grading.options import Options  # noqa: E402
from dojo.grading.run import attempt_maker  # noqa: E402
from dojo.judge.fork_server import ForkServer  # noqa: E402
from dojo.judge.pool import processors  # noqa: E402

STEP = math.log(P1 / P0)
UP = math.ceil(math.log((1 - MISS) / FALSE_ALARM) / STEP)
DOWN = math.ceil(-math.log(MISS / (1 - FALSE_ALARM)) / STEP)
AGAIN = """

{clock}
_once = {name}


def _again(call):
    # Until the time is up, not so many times: what is called again finds its memory at hand, and is quicker.
    started = _now()
    result = call()
    end = started + {times} * (_now() - started)
    while _now() < end:
        result = call()
    return result


if isinstance(_once, type):
    class {name}(_once):
        def forward(self, *args, **kwargs):
            return _again(lambda: _once.forward(self, *args, **kwargs))
else:
    def {name}(*args, **kwargs):
        return _again(lambda: _once(*args, **kwargs))
"""
CLOCKS = {
    "cpu": "from time import process_time as _now",
    "cuda": """
def _now():
    from time import perf_counter
    from torch.cuda import synchronize
    synchronize()
    return perf_counter()
""",
}
HEAD = """\
# False alarms and misses of the time checks

Measured by `python benchmarks/clocks.py{more}` on {cores} processors{gpu} with a load average of {load:.1f}. A slow
attempt takes {slow:g} times its limit. The third column is the slowest of the right attempts, by its median; the fourth
the standard deviation, over races, of the solution's own ratio, and the fifth how many pairs decided on a right attempt
and on a slow one, in the mean.

| | limit | slowest | deviation | pairs | races of right attempts | called slow | undecided | slow ones caught |
|---|---|---|---|---|---|---|---|---|
"""


def ruin(p: float) -> float:
    """The probability that a walk with this chance of a step up is UP above its start before it is DOWN below."""
    if p <= 0:
        return 0.0
    odds = (1 - p) / p
    return DOWN / (UP + DOWN) if odds == 1 else (odds**DOWN - 1) / (odds ** (UP + DOWN) - 1)


def at_most(count: int, total: int) -> float:
    """The upper end of the 95% interval of a share (Wilson)."""
    z, share = 1.96, count / total
    centre, spread = share + z * z / (2 * total), z * math.sqrt(share * (1 - share) / total + z * z / (4 * total**2))
    return (centre + spread) / (1 + z * z / total)


def races(
    contract: type[Contract], source: str, master: str, count: int, server: ForkServer, device: str
) -> list[Race]:
    """The grader's race between a source and the solution, so many times on fresh inputs."""
    make = attempt_maker(Options(0, device=device), server)
    attempt, reference = make(source, "attempt.py"), make(master, "reference.py")
    try:
        return [contract().race(attempt, reference, Draw(seed)) for seed in range(count)]
    finally:
        attempt.close()
        reference.close()


@dataclass
class Total:
    """What all races came to."""

    right: int = 0
    alarms: int = 0
    undecided: int = 0
    over: int = 0  # single pairs, over the limit by chance
    pairs: int = 0
    slow: int = 0
    caught: int = 0

    def add(self, right: list[Race], wrong: list[Race]) -> None:
        """Count the races of right attempts and those of slow ones."""
        self.right += len(right)
        self.alarms += sum(each.slower is True for each in right)
        self.undecided += sum(each.slower is None for each in right)
        self.over += sum(each.over for each in right if each.slower is False)
        self.pairs += sum(each.pairs for each in right if each.slower is False)
        self.slow += len(wrong)
        self.caught += sum(each.slower is True for each in wrong)

    def said(self) -> str:
        """In words."""
        bound, caught = at_most(self.over, self.pairs), 1 - at_most(self.slow - self.caught, self.slow)
        return (
            f"\n\nIn all {self.right} races of right attempts: {self.alarms} called slow, {self.undecided} undecided.\n"
            f"Of {self.slow} slow ones {self.caught} were caught, at least {100 * caught:.1f}% (95%).\n\n"
            f"{self.over} of {self.pairs} pairs came out over the limit by chance, at most {100 * bound:.3g}% (95%).\n"
            f"An attempt is called slow when {UP} more pairs are over than under before {DOWN} more are under than\n"
            f"over: with that share, a probability below {ruin(bound):.1e}.\n"
        )


def main() -> int:
    """Print the table; returns 1 if a right attempt was called slow."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA", help="katas or tracks; all when none is named")
    parser.add_argument("--races", type=int, default=20, metavar="N", help="races of each kind, for each function")
    parser.add_argument("--slow", type=float, default=3.0, metavar="X", help="times the limit that a slow one takes")
    parser.add_argument("--load", type=int, default=2, metavar="N", help="processes that keep cores busy meanwhile")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table to this file")
    args = parser.parse_args()
    rows, loads, total = [], [], Total()
    load = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(args.load)]
    server = ForkServer()
    parallel.import_all()
    try:
        for kata in subjects.chosen(parser, args.names):
            master = read_text(kata.master)

            def race_often(contract: type[Contract], source: str, master: str = master) -> list[Race]:
                return races(contract, source, master, args.races, server, args.device)

            for name, contract in subjects.timed(kata):
                print(f"\r{kata.name}: {name} ".ljust(60), end="", file=sys.stderr, flush=True)
                times = math.ceil(args.slow * contract.time_limit)
                itself = race_often(contract, master)
                others = [race_often(contract, text) for text in subjects.attempts(kata).values()]
                right = sum(others, itself)
                clock = CLOCKS[args.device]
                wrong = race_often(contract, master + AGAIN.format(name=name, times=times, clock=clock))
                total.add(right, wrong)
                loads.append(os.getloadavg()[0])
                called, open_ = (sum(each.slower is verdict for each in right) for verdict in (True, None))
                ratio, seen = max(each.ratio for each in right), sum(each.slower is True for each in wrong)
                limit = f"{contract.time_limit:.0f} × | {ratio:.1f} ×"
                pairs = " / ".join(f"{mean(each.pairs for each in group):.1f}" for group in (right, wrong))
                limit += f" | {stdev(each.ratio for each in itself) if args.races > 1 else 0:.2f} | {pairs}"
                rows.append(f"| `{name}` | {limit} | {len(right)} | {called} | {open_} | {seen} of {len(wrong)} |")
    finally:
        server.close()
        for process in load:
            process.kill()
    on_gpu = args.device == "cuda"
    page = HEAD.format(
        cores=processors(),
        load=median(loads),
        slow=args.slow,
        more=" --device cuda" * on_gpu,
        gpu=f" and one {torch.cuda.get_device_name()}" if on_gpu else "",
    )
    page += "\n".join(rows) + total.said()
    print("\r" + page)
    if args.out:
        files.write_atomic(args.out.resolve(), page)
    return 1 if total.alarms else 0


if __name__ == "__main__":
    sys.exit(main())
