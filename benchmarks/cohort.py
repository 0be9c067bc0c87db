"""A class graded by one process, by all of this machine's and by Ray, and what a cluster would take for a million.

    nox -s bench -- cohort [--students 300] [--katas softmax,rope,gqa] [--engines one,local,ray] [--out docs/scale.md]

The students hand in the repository's own attempts: right ones, known bugs and mistakes, by turns. Every engine grades
the same ones with the same seed, and the verdicts must agree. Memory is the proportional set size of all processes of
the run, sampled as it goes. The service times and the driver's own time per attempt, measured here, are then drawn
from in a discrete simulation (SimPy) of clusters of 8, 64 and 512 nodes: where attempts stop being graded faster
because the one driver can hand out and store no more of them.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from benchmarks import subjects  # noqa: E402
from dojo.cohort.engine import Engine, Job, LocalEngine, Slot, results  # noqa: E402
from dojo.cohort.records import Result, Submitted  # noqa: E402
from dojo.cohort.store import Store, Terms  # noqa: E402
from dojo.content import catalog, proofs  # noqa: E402
from dojo.content.master import read_text  # noqa: E402
from dojo.judge import sandbox  # noqa: E402
from dojo.judge.fork_server import ForkServer  # noqa: E402

NODES = (1, 8, 64, 512)
SLOTS = 16  # processors of a simulated node
PRICE = 0.04  # dollars for a processor and hour, an example
SAMPLE_EVERY = 25  # results


@dataclass
class Run:
    """What one engine took."""

    name: str
    seconds: float
    verdicts: dict[tuple[str, str], str] = field(repr=False)
    service: list[float] = field(repr=False)  # seconds of each attempt in its slot
    memory: list[float] = field(repr=False)  # MiB, as it went

    @property
    def each(self) -> float:
        """Seconds from one result to the next."""
        return self.seconds / len(self.verdicts)


def main() -> int:
    """Run the engines that are asked for, compare, simulate, and say it all."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--students", type=int, default=300, metavar="N", help="300")
    parser.add_argument("--katas", default="softmax,rope,gqa", metavar="NAMES", help="softmax,rope,gqa")
    parser.add_argument("--engines", default="one,local,ray", metavar="WORDS", help="of one, local and ray")
    parser.add_argument("--no-sandbox", action="store_true", help="without bubblewrap")
    parser.add_argument("--seed", type=int, default=20261122, metavar="N", help="of all inputs")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the findings as Markdown")
    args = parser.parse_args()
    handed_in = dict(students(args.students, args.katas.split(",")))
    rows = []
    for name in args.engines.split(","):
        rows.append(measured(name, handed_in, args))
        print(line(rows[-1], rows[0]), flush=True)
    for other in rows[1:]:
        differ = [key for key, said in other.verdicts.items() if rows[0].verdicts[key] != said]
        print(
            f"{other.name}: {len(differ)} of {len(handed_in)} verdicts differ from those of {rows[0].name}", *differ[:5]
        )
    driver = driver_seconds(handed_in)
    print(f"the driver's own time: {1000 * driver:.2f} ms an attempt")
    simulated = [(nodes, *simulate(nodes * SLOTS, rows[-1].service, driver)) for nodes in NODES]
    page = told(args, rows, driver, simulated)
    print(page)
    if args.out:
        for part in page.split("\n## "):
            title, _, text = part.partition("\n")
            subjects.write_section(args.out, title.removeprefix("## "), text)
    return 0


def students(count: int, names: list[str]) -> Iterator[tuple[tuple[str, str], Submitted]]:
    """Who hands in what: right attempts, bugs and mistakes of the repository, by turns."""
    for name in names:
        kata = catalog.one(name)
        solution = read_text(kata.master)
        right = list(subjects.attempts(kata).values())
        wrong = [bug.plant(solution) for bug in proofs.bugs(kata) if bug.fits(solution)]
        turns = itertools.cycle(
            [source for pair in zip(itertools.cycle(right), wrong, strict=False) for source in pair]
        )
        for number, source in zip(range(count), turns, strict=False):
            student = f"student {number:03}"
            yield (student, name), Submitted(student, name, f"{student}/{name}.py", source)


def measured(name: str, handed_in: dict[tuple[str, str], Submitted], args: argparse.Namespace) -> Run:
    """Grade all of it with one engine."""
    import torch

    terms, katas = Terms(args.seed, torch=torch.__version__), catalog.katas()
    wanted = sorted(handed_in, key=lambda each: (each[1], each[0]))
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "cohort.sqlite")) as store:
        store.take(handed_in.values(), [])
        engine, close = started(name, not args.no_sandbox)
        verdicts, service, memory = {}, [], []
        begun = time.perf_counter()
        for result in results(wanted, store.submitted, terms, engine):
            one = result.submitted
            store.put(result, terms.digest_of(one.digest, katas[one.kata]))
            verdicts[one.student, one.kata] = result.verdict["verdict"]
            service.append(result.seconds)
            if len(verdicts) % SAMPLE_EVERY == 0:
                memory.append(mebibytes())
        seconds = time.perf_counter() - begun
        close()
    return Run(name, seconds, verdicts, service, memory)


def started(name: str, sandboxed: bool) -> tuple[Engine, object]:
    """An engine by its name, and what ends it."""
    if name == "ray":
        from dojo.cohort.on_ray import RayEngine

        found: Engine = RayEngine("auto", sandboxed, size=os.cpu_count())
        return found, found.close
    server = ForkServer(around=sandbox.prefix() if sandboxed else [])
    local = LocalEngine(server, 1 if name == "one" else None)

    def close() -> None:
        local.close()
        server.close()

    return local, close


class NoWork:
    """An engine whose results are there at once: what is left is the driver's own work."""

    def __init__(self, verdict: dict) -> None:
        self.idle: list[Slot] = [_Empty(), _Empty()]
        self.verdict = verdict

    def ready(self) -> list[Slot]:
        return []

    def done(self, busy: list, seconds: float) -> list[tuple[Slot, Result | str]]:
        return [(slot, Result(slot.job.submitted, self.verdict)) for slot in busy]

    def close(self) -> None:
        pass


class _Empty:
    job: Job

    def begin(self, job: Job) -> None:
        self.job = job

    def end(self) -> None:
        pass


def driver_seconds(handed_in: dict[tuple[str, str], Submitted]) -> float:
    """What handing out an attempt and storing its result takes, on a verdict of a usual size."""
    message = "the result matches the definition " * 20
    check = {"name": "x", "tier": "core", "outcome": "wrong", "seconds": 0.1, "message": message, "diagnosis": None}
    terms, katas = Terms(1, torch="2"), catalog.katas()
    verdict = {"verdict": "failed", "tiers": {"core": "failed"}, "checks": [check] * 30}
    with tempfile.TemporaryDirectory() as folder, Store(Path(folder, "cohort.sqlite")) as store:
        store.take(handed_in.values(), [])
        begun = time.process_time()
        for result in results(list(handed_in), store.submitted, terms, NoWork(verdict)):
            store.put(result, terms.digest_of(result.submitted.digest, katas[result.submitted.kata]))
        return (time.process_time() - begun) / len(handed_in)


def simulate(slots: int, service: list[float], driver: float, jobs: int | None = None) -> tuple[float, float]:
    """Attempts a second, and the share of its time that the driver is busy, with so many slots."""
    import simpy

    world, drawn = simpy.Environment(), random.Random(7)
    desk, busy, ended = simpy.Resource(world, 1), 0.0, 0.0
    left = itertools.repeat(None, jobs or max(2000, 40 * slots))

    def slot():
        nonlocal busy, ended
        for _ in left:
            with desk.request() as turn:
                yield turn
                busy += driver
                yield world.timeout(driver)
            yield world.timeout(drawn.choice(service))
            ended = world.now

    for _ in range(slots):
        world.process(slot())
    world.run()
    count = jobs or max(2000, 40 * slots)
    return count / ended, busy / ended


def mebibytes() -> float:
    """Proportional set size of this process and all below it."""
    import psutil

    me, total = psutil.Process(), 0
    for each in (me, *me.children(recursive=True)):
        try:
            total += each.memory_full_info().pss
        except psutil.Error:
            continue
    return total / (1 << 20)


def line(run: Run, first: Run) -> str:
    """What one engine took, in a line."""
    memory = f"{run.memory[0]:.0f} to {run.memory[-1]:.0f} MiB" if run.memory else "not sampled"
    count = Counter(run.verdicts.values())
    said = ", ".join(f"{number} {verdict}" for verdict, number in count.most_common())
    return (
        f"{run.name:<6} {run.seconds:7.1f} s  {run.each:.2f} s an attempt  {first.each / run.each:.2f} × {first.name}  "
        f"memory {memory}  ({said})"
    )


def told(args: argparse.Namespace, rows: list[Run], driver: float, simulated: list[tuple]) -> str:
    """The findings as a page."""
    mean = statistics.mean(rows[-1].service)
    lines = ["## Three engines", ""]
    words = f"--students {args.students} --katas {args.katas} --engines {args.engines}"
    lines += [f"Written by `nox -s bench -- cohort {words} --out docs/scale.md` on {os.cpu_count()} processors.", ""]
    lines += [f"{args.students} students × {args.katas}: the repository's right attempts and known bugs by turns.", ""]
    lines += [
        "| engine | seconds | an attempt | rate | memory of all processes, first to last |",
        "|---|--:|--:|--:|---|",
    ]
    for run in rows:
        memory = f"{run.memory[0]:.0f} to {run.memory[-1]:.0f} MiB" if run.memory else ""
        rate = f"{rows[0].each / run.each:.2f} × {rows[0].name}"
        lines.append(f"| {run.name} | {run.seconds:.0f} | {run.each:.2f} s | {rate} | {memory} |")
    lines += ["", "## A cluster, simulated", ""]
    lines += [
        f"Service times are drawn from the {len(rows[-1].service)} measured ones (mean {mean:.2f} s). The one driver "
        f"takes {1000 * driver:.2f} ms of its own for each attempt, measured too, so it serves at most "
        f"{1 / driver:,.0f} a second: it saturates at about {mean / driver:,.0f} processors, which is "
        f"{mean / driver / SLOTS:.0f} nodes of {SLOTS}. Network, Ray's own work and what "
        "comes after the last verdict are not in it.",
        "",
        f"| nodes of {SLOTS} processors | attempts a second | an hour | driver busy | hours for a million | at "
        f"{PRICE} $ a processor and hour |",
        "|--:|--:|--:|--:|--:|--:|",
    ]
    for nodes, rate, busy in simulated:
        hours = 1e6 / rate / 3600
        cost = hours * nodes * SLOTS * PRICE
        lines.append(f"| {nodes} | {rate:,.1f} | {rate * 3600:,.0f} | {busy:.0%} | {hours:,.2f} | {cost:,.0f} $ |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
