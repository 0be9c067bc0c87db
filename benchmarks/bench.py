"""What each solution costs beside the best PyTorch for the same work: time, with backward, bytes, and how they grow.

    nox -s bench -- KATA ... [--pairs 20]     prints the rows; a track is many katas
    nox -s bench -- all                       measures every kata of tensors, and writes docs/bench.md
    nox -s bench -- all --device cuda         on a GPU, at the sizes of a 7B model: see benchmarks/at_7b.py

`benchmarks/peers.py` says what each is measured against. Both run on the same inputs, on one thread, a few calls of
each by turns in an order that chance picks; a ratio is the median over pairs, of processor time on the CPU and of
events on a GPU, so that another program's load falls on both. Bytes are all that is allocated during a call.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # else the profiler logs that it starts and stops

import torch  # noqa: E402
from torch import Tensor, nn  # noqa: E402
from torch.utils._pytree import tree_leaves, tree_map  # noqa: E402

from benchmarks import subjects  # noqa: E402
from benchmarks.peers import PEERS, REASONS, Peer, Work  # noqa: E402
from dojo.content import catalog, files  # noqa: E402

Run = Callable[[], Any]
PAGE = PROJECT / "docs" / "bench.md"
WARM_UPS, READING = 2, 1e-3  # seconds that one reading takes at least: the clock and the loop are no part of it
TIME, BYTES = 1.2, 1.5  # what a solution may cost, as a multiple of its peer


@dataclass(frozen=True)
class Row:
    """Ratios of a solution to its peer, one for each size; no `backward` where no gradient is asked for."""

    peer: Peer
    forward: list[float]
    backward: list[float]
    forward_bytes: list[float]
    backward_bytes: list[float]
    growth: list[float]  # of the solution's own time from one size to the next
    peers_growth: list[float]

    def beyond(self) -> list[str]:
        """What of it is beyond its limit: bytes at any size, time at two of them, for one may be chance."""
        slow = any(sum(ratio > TIME for ratio in ratios) >= 2 for ratios in (self.forward, self.backward))
        large = max(self.forward_bytes + self.backward_bytes) > BYTES
        return ["time"] * slow + ["bytes"] * large


def runs(work: Work, backward: bool) -> list[Run]:
    """The solution's call and the peer's, on tensors of their own."""
    made = []
    for target in (work.ours, work.theirs):
        inputs = tree_map(lambda v: v.clone() if isinstance(v, Tensor) else v, work.inputs)
        if not backward:
            made.append(lambda target=target, inputs=inputs: target(*inputs))
            continue
        leaves = [v.requires_grad_() for v in tree_leaves(inputs) if isinstance(v, Tensor) and v.is_floating_point()]
        owner = target if isinstance(target, nn.Module) else work.ours
        leaves += [p for p in owner.parameters() if p.requires_grad] if isinstance(owner, nn.Module) else []
        made.append(_with_backward(target, inputs, leaves))
    return made


def _with_backward(target: Callable[..., Any], inputs: tuple[Any, ...], leaves: list[Tensor]) -> Run:
    def results() -> list[Tensor]:
        return [v for v in tree_leaves(target(*inputs)) if isinstance(v, Tensor) and v.requires_grad]

    cotangents = [torch.randn_like(each) for each in results()]
    return lambda: torch.autograd.grad(results(), leaves, cotangents, allow_unused=True)


def measured(pair: list[Run], device: str, pairs: int) -> tuple[float, float, float]:
    """The median ratio of the first to the second, and the median seconds of each."""
    calls = 1
    for run in pair:
        for _ in range(WARM_UPS):
            once = seconds(run, 1, device)
        calls = max(calls, math.ceil(READING / max(once, 1e-7)))
    taken: list[list[float]] = [[], []]
    for _ in range(pairs):
        for index in random.sample((0, 1), 2):
            taken[index].append(seconds(pair[index], calls, device))
    ratio = statistics.median(a / b for a, b in zip(*taken, strict=True))
    return ratio, statistics.median(taken[0]), statistics.median(taken[1])


def seconds(run: Run, calls: int, device: str) -> float:
    """What one of these calls takes: processor time, or a GPU's own."""
    if device == "cpu":
        begun = time.process_time()
        for _ in range(calls):
            run()
        return (time.process_time() - begun) / calls
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000 / calls


def allocated(run: Run) -> int:
    """All bytes that the allocator hands out in one call, what is freed within it too."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        run()
    events = profile.profiler.kineto_results.events()
    return sum(max(0, event.nbytes()) for event in events if event.name() == "[memory]")


def row(peer: Peer, pairs: int) -> Row:
    """Measure one callable at its sizes.

    Raises:
        AssertionError: the two do not give the same values, where they should.
    """
    found: dict[str, list[float]] = {"forward": [], "backward": [], "forward bytes": [], "backward bytes": []}
    taken: list[list[float]] = [[], []]
    for size in peer.sizes:
        torch.manual_seed(0)
        work = peer.make(catalog.load(catalog.named(peer.kata).master), size)
        for way in ("forward", "backward") if peer.backward else ("forward",):
            with torch.set_grad_enabled(way == "backward"):
                pair = runs(work, way == "backward")
                if work.alike and way == "forward":
                    torch.testing.assert_close(*(_floats(run()) for run in pair), atol=1e-3, rtol=1e-3)
                ratio, *both = measured(pair, "cpu", pairs)
                bytes_ = [allocated(run) for run in pair]
            found[way].append(ratio)
            found[f"{way} bytes"].append(bytes_[0] / bytes_[1] if bytes_[1] else 1.0 + bool(bytes_[0]))
            if way == "forward":
                for mine, each in zip(taken, both, strict=True):
                    mine.append(each)
    growth = [[b / a for a, b in itertools.pairwise(each)] for each in taken]
    return Row(peer, *found.values(), *growth)


def _floats(result: Any) -> list[Tensor]:
    return [v for v in tree_leaves(result) if isinstance(v, Tensor) and v.is_floating_point()]


def table(rows: list[Row]) -> str:
    """Markdown, a ratio for each size; bold is beyond the limit."""
    heads = "kata|solution|beside|sizes|time|with backward|bytes|with backward|growth (the peer's)|beyond".split("|")
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for each in rows:
        peer, beyond = each.peer, ", ".join(each.beyond())
        why = REASONS.get(peer.name, "") if beyond else ""
        cells = [
            f"`{peer.kata}`",
            f"`{peer.name}`",
            peer.beside,
            " ".join(map(str, peer.sizes)),
            _ratios(each.forward, TIME),
            _ratios(each.backward, TIME),
            _ratios(each.forward_bytes, BYTES),
            _ratios(each.backward_bytes, BYTES),
            f"{_ratios(each.growth)} ({_ratios(each.peers_growth)})",
            f"{beyond}: {why}" if why else beyond,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _ratios(values: list[float], limit: float = math.inf) -> str:
    shown = (f"{value:.2f}" if value < 10 else f"{value:.0f}" for value in values)
    return " ".join(f"**{word}**" if value > limit else word for word, value in zip(shown, values, strict=True)) or "–"


def plot(rows: list[Row], path: Path) -> None:
    """The ratios of time at the largest size as bars, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(8, 0.35 * len(rows) + 1.2), layout="constrained")
    axis.barh([f"{each.peer.kata}: {each.peer.name}" for each in rows], [each.forward[-1] for each in rows])
    axis.axvline(1, color="black", linewidth=1)
    axis.set(xscale="log", xlabel="time of the solution ÷ time of its peer")
    axis.invert_yaxis()
    figure.savefig(path, dpi=120)


def processor() -> str:
    """What ran it."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"one thread of {next(named, platform.processor() or platform.machine())}"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA", help="katas or tracks; all when none is named")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table to this file; docs/bench.md for all")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios into this file")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here that PyTorch can use; without --device it measures ratios on the CPU")
    chosen = {kata.name for kata in subjects.chosen(parser, args.names)}
    if args.device == "cuda":
        from benchmarks import at_7b

        return at_7b.measure(chosen, args.pairs, args.out)
    peers = [peer for peer in PEERS if peer.kata in chosen]
    if not peers:
        parser.error(f"{' '.join(args.names)}: no tensors are computed there, so there is nothing to measure against")
    torch.set_num_threads(1)
    rows, begun = [], time.monotonic()
    for number, peer in enumerate(peers, 1):
        text = f"{number} of {len(peers)}, {time.monotonic() - begun:.0f} s: {peer.kata}: {peer.name}"
        print(f"\r{text} ".ljust(70), end="", file=sys.stderr, flush=True)
        rows.append(row(peer, args.pairs))
    print(f"\r{' ' * 70}\r", end="", file=sys.stderr, flush=True)
    beyond = [each for each in rows if each.beyond()]
    command = f"nox -s bench -- {' '.join(args.names)} --pairs {args.pairs}"
    page = (
        f"Measured by `{command}` on {processor()}, torch {torch.__version__}.\n\n"
        "Each number is a solution's cost as a multiple of its peer's, at four sizes. A time is the median over "
        f"{args.pairs} pairs, growth the factor from size to size. Bold is beyond {TIME} × the time or {BYTES} × the "
        f"bytes; {len(beyond)} of {len(rows)} rows are beyond, in bytes at any size or in time at two. Debug katas "
        "hand out their program, and have no row.\n\n"
        f"{table(rows)}"
    )
    print(page)
    if out := args.out or (PAGE if args.names == ["all"] else None):
        files.write_atomic(out.resolve(), f"# Solutions beside the best PyTorch\n\n{page}")
    if args.plot:
        plot(rows, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
