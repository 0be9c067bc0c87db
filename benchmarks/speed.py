"""How long a verdict takes, as a ratio to `import torch` measured in the same run, and how much memory it needs.

    python benchmarks/speed.py [--rounds 5]

Each round runs the commands in turn, so that a busy spell of the machine falls on all of them; medians are compared.
Seconds by the clock are what a user waits on an idle machine; processor seconds, of a command with all processes that
it starts, compare on a busy one too.
Memory is the proportional set size of the judge and all its workers together, sampled while the nine katas are graded.
A warm judge, as `watch` and `mock` have it, is timed with every kata.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
NINE = "softmax rope causal_mask mha mqa gqa swiglu block lm".split()
PYTHON = {
    "import torch": ["-c", "import torch"],
    "grade softmax --solution": ["-m", "dojo", "grade", "softmax", "--solution"],
    "grade rope --solution": ["-m", "dojo", "grade", "rope", "--solution"],
    "grade gqa --solution": ["-m", "dojo", "grade", "gqa", "--solution"],
    "grade mha --solution": ["-m", "dojo", "grade", "mha", "--solution"],
    "grade the nine --solution": ["-m", "dojo", "grade", *NINE, "--solution"],
    "grade all --solution": ["-m", "dojo", "grade", "all", "--solution"],
}
COMMANDS = {name: [sys.executable, *words] for name, words in PYTHON.items()}
NOX = ["nox", "-s", "grade", "--"]
COMMANDS |= {f"nox, grade {name}": [*NOX, name, "--solution"] for name in ("softmax", "rope", "gqa")}
LIMITS = {"grade the nine --solution": 15.0}  # seconds
RATIOS = {name: 1.2 for name in ("grade softmax --solution", "grade rope --solution", "grade gqa --solution")}
RATIOS |= {name: 1.3 for name in COMMANDS if name.startswith("nox")}  # of `import torch`
MEMORY_LIMIT = 1 << 30
WATCH_LIMIT = 0.3  # seconds after a save, in the median of all katas but the debug ones


def seconds(command: list[str]) -> tuple[float, float]:
    """Wall time and processor time of one run with all its processes; the command must succeed."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - started, used.ru_utime + used.ru_stime


def watch_latencies(rounds: int) -> dict[str, float]:
    """Seconds from a save to the verdict of a warm judge, the rest that a file must come to included: kata by kata."""
    sys.path.insert(0, str(PROJECT))
    from dojo.content import catalog, watcher
    from dojo.grading.options import Entry
    from dojo.grading.resident import ResidentGrader

    found = {}
    with ResidentGrader(seed=1) as grader:
        for name, kata in catalog.katas().items():
            if kata.track == "debug":
                continue
            print(f"\rwatch {name:30}", end="", file=sys.stderr, flush=True)
            grader.prepare(kata)
            entry = Entry.of_solution(kata)
            times = []
            for _ in range(rounds):
                started = time.perf_counter()
                grader.grade(entry)
                times.append(time.perf_counter() - started + watcher.CALM + watcher.TICK)
            found[name] = statistics.median(times)
    print(file=sys.stderr)
    return found


def family(pid: int) -> set[int]:
    """A process and all its descendants."""
    found, queue = set(), [pid]
    while queue:
        pid = queue.pop()
        found.add(pid)
        try:
            queue += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
        except OSError:
            continue
    return found


def proportional_bytes(pid: int) -> int:
    """The proportional set size of a process: shared pages are counted in parts."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


def peak_memory(command: list[str]) -> tuple[int, set[int]]:
    """The largest memory of a command with its descendants, and every process that was among them."""
    process = subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.DEVNULL)
    peak, seen = 0, set()
    while process.poll() is None:
        members = family(process.pid)
        seen |= members
        peak = max(peak, sum(map(proportional_bytes, members)))
        time.sleep(0.05)
    return peak, seen


def main() -> int:
    """Measure, print the table, and return 1 if a limit is passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    commands = {name: command for name, command in COMMANDS.items() if shutil.which(command[0])}
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
    for number in range(rounds):
        for name, command in commands.items():
            print(f"\rround {number + 1} of {rounds}: {name:30}", end="", file=sys.stderr, flush=True)
            times[name].append(seconds(command))
    print(file=sys.stderr)
    medians, used = (
        {name: statistics.median(each[place] for each in found) for name, found in times.items()} for place in (0, 1)
    )
    good = True
    for name, median in medians.items():
        ratio, limit = median / medians["import torch"], LIMITS.get(name) or RATIOS.get(name)
        good &= limit is None or (median if name in LIMITS else ratio) <= limit
        processor = f"{used[name]:6.2f} s  {used[name] / used['import torch']:5.2f} ×"
        text = f"  (limit {limit}{'' if name in LIMITS else ' ×'})" if limit else ""
        print(f"{name:28} {median:6.2f} s  {ratio:5.2f} × import torch, of a processor {processor}{text}")
    watched = watch_latencies(rounds)
    middle, slowest = statistics.median(watched.values()), sorted(watched, key=watched.__getitem__)[-5:]
    good &= middle <= WATCH_LIMIT
    print(f"watch, the median of {len(watched)}       {middle:6.2f} s  (limit {WATCH_LIMIT} s)")
    print("watch, the slowest          " + ", ".join(f"{name} {watched[name]:.2f} s" for name in reversed(slowest)))
    if Path("/proc/self/smaps_rollup").exists():
        peak, seen = peak_memory(COMMANDS["grade the nine --solution"])
        left = [pid for pid in seen if os.path.exists(f"/proc/{pid}")]
        good &= peak <= MEMORY_LIMIT and not left
        print(f"judge and workers together   {peak / 2**20:6.0f} MiB  (limit {MEMORY_LIMIT >> 20})")
        print(f"processes left behind        {left or 'none'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
