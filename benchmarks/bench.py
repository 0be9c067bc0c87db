"""How fast each solution is beside PyTorch's own operation for the same work, where it has one.

    nox -s bench -- [KATA ...] [--device cuda] [--pairs 60] [--out docs/bench.md] [--plot bench.png]

Both run on the inputs of the grader's time check, one call of each by turns after a warm-up, in an order that chance
picks; the ratio is the median over pairs. On a GPU calls are timed by events, with the cache cleared before each. The
last column is the memory that inputs, parameters and result take, moved once, as a share of what a plain copy of a
large tensor moves in the same time in the same run: near 1 for work that memory bounds, small where arithmetic does.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor  # noqa: E402

from benchmarks import subjects  # noqa: E402
from dojo.content import catalog, files  # noqa: E402
from dojo.contracts import Call, Draw  # noqa: E402

Run = Callable[[], Tensor]
WARM_UPS, CLEARED = 5, 64 << 20  # bytes, more than the last cache of a GPU


def linears(params: dict[str, Tensor], *names: str) -> list[Tensor]:
    return [params[f"{name}.weight"] for name in names]


def attention(init: dict, params: dict, x: Tensor, mask: Tensor | None = None, **_: object) -> Tensor:
    """Grouped attention by PyTorch's fused kernel."""
    q, k, v = (F.linear(x, weight) for weight in linears(params, "q_proj", "k_proj", "v_proj"))
    size = q.shape[-1] // init["num_heads"]
    q, k, v = (t.unflatten(-1, (-1, size)).transpose(-3, -2) for t in (q, k, v))
    heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)
    return F.linear(heads.transpose(-3, -2).flatten(-2), params["o_proj.weight"])


# The library's own operation for the work of a class or function, on the same arguments.
PEERS: dict[str, Callable[..., Tensor]] = {
    "Linear": lambda init, params, x: F.linear(x, params["weight"]),
    "Embedding": lambda init, params, token_ids: F.embedding(token_ids, params["weight"]),
    "softmax": lambda init, params, x, dim=-1: torch.softmax(x, dim),
    "sigmoid": lambda init, params, x: torch.sigmoid(x),
    "silu": lambda init, params, x: F.silu(x),
    "gelu": lambda init, params, x: F.gelu(x),
    "RMSNorm": lambda init, params, x: F.rms_norm(x, x.shape[-1:], params["weight"], 1e-5),
    "LayerNorm": lambda init, params, x: F.layer_norm(x, x.shape[-1:], params["weight"], params["bias"]),
    "scaled_dot_product_attention": lambda init, params, q, k, v, mask=None: F.scaled_dot_product_attention(
        q, k, v, attn_mask=mask
    ),
    "MultiHeadAttention": attention,
    "MultiQueryAttention": attention,
    "GroupedQueryAttention": attention,
    "SwiGLU": lambda init, params, x: F.linear(
        F.silu(F.linear(x, params["w1.weight"])) * F.linear(x, params["w3.weight"]), params["w2.weight"]
    ),
    "FeedForward": lambda init, params, x: F.linear(
        F.gelu(F.linear(x, params["fc1.weight"], params["fc1.bias"])), params["fc2.weight"], params["fc2.bias"]
    ),
}


def ours(module: object, name: str, call: Call, device: str) -> Run:
    """The solution on these arguments."""
    target, values = getattr(module, name), list(call.inputs.values())
    if call.init or call.params:
        target = target(**call.init).to(device).eval()
        target.load_state_dict(call.params)
    words = dict(zip(list(call.inputs)[1:], values[1:], strict=True)) if call.init or call.params else {}
    return (lambda: target(values[0], **words)) if words else (lambda: target(*values))


def copies_per_second(device: str) -> float:
    """Bytes that a plain copy moves in a second, read and written."""
    source = torch.empty(CLEARED // 4, device=device)
    target = torch.empty_like(source)
    taken = [timed(lambda: target.copy_(source), device) for _ in range(20)]
    return 2 * CLEARED / statistics.median(taken)


def timed(run: Run, device: str) -> float:
    """Seconds of one call."""
    if device == "cpu":
        begun = time.perf_counter()
        run()
        return time.perf_counter() - begun
    torch.empty(CLEARED, dtype=torch.int8, device=device).zero_()
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1000


def measure(runs: list[Run], device: str, pairs: int) -> list[list[float]]:
    """Seconds of each run in each pair, in random order within it."""
    for run in runs * WARM_UPS:
        timed(run, device)
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(pairs):
        for index in random.sample(range(len(runs)), len(runs)):
            taken[index].append(timed(runs[index], device))
    return taken


def size(*tensors: object) -> int:
    return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))


def row(kata: catalog.Kata, name: str, contract: type, device: str, pairs: int, speed: float) -> tuple:
    """Kata, name, milliseconds, ratio to the library's own or nan, share of the memory's speed."""
    call: Call = contract.timed(Draw(0))
    move = lambda values: {k: v.to(device) if isinstance(v, Tensor) else v for k, v in values.items()}  # noqa: E731
    call = Call(move(call.inputs), call.init, move(call.params))
    runs = [ours(catalog.load(kata.master), name, call, device)]
    peer = PEERS.get(name)
    if peer:
        runs.append(lambda: peer(call.init, call.params, **call.inputs))
        torch.testing.assert_close(runs[0](), runs[1](), atol=1e-2, rtol=1e-2, equal_nan=True)
    taken = measure(runs, device, pairs)
    ratio = statistics.median(a / b for a, b in zip(*taken, strict=True)) if peer else math.nan
    seconds = statistics.median(taken[0])
    moved = size(*call.inputs.values(), *call.params.values(), runs[0]())
    return kata.name, name, 1000 * seconds, ratio, moved / seconds / speed


def table(rows: list[tuple], device: str) -> str:
    """Markdown; milliseconds only where they say something about more than this machine's load."""
    gpu = device != "cpu"
    lines = ["| kata | | " + ("ms | " if gpu else "") + "× PyTorch's own | share of a copy's speed |"]
    lines.append("|---|---|" + "---|" * (3 if gpu else 2))
    for kata, name, ms, ratio, share in rows:
        own = "–" if math.isnan(ratio) else f"{ratio:.2f}"
        lines.append(f"| `{kata}` | `{name}` | " + (f"{ms:.3f} | " if gpu else "") + f"{own} | {share:.2f} |")
    return "\n".join(lines) + "\n"


def plot(rows: list[tuple], path: Path) -> None:
    """The ratios as bars, on a logarithmic axis."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    known = [row for row in rows if not math.isnan(row[3])]
    figure, axis = plt.subplots(figsize=(8, 0.35 * len(known) + 1.2), layout="constrained")
    axis.barh([f"{row[0]}: {row[1]}" for row in known], [row[3] for row in known])
    axis.axvline(1, color="black", linewidth=1)
    axis.set(xscale="log", xlabel="time of the solution ÷ time of PyTorch's own operation")
    axis.invert_yaxis()
    figure.savefig(path, dpi=120)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA", help="katas or tracks; all when none is named")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table to this file")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the ratios into this file")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("there is no GPU here that PyTorch can use; without --device it measures ratios on the CPU")
    chosen = subjects.chosen(parser, args.names)
    torch.set_num_threads(1)
    rows = []
    with torch.inference_mode():
        speed = copies_per_second(args.device)
        for kata in chosen:
            for name, contract in subjects.timed(kata):
                print(f"\r{kata.name}: {name} ".ljust(60), end="", file=sys.stderr, flush=True)
                rows.append(row(kata, name, contract, args.device, args.pairs, speed))
    place = torch.cuda.get_device_name() if args.device == "cuda" else "one thread of the CPU"
    page = f"Measured by `nox -s bench` on {place}, torch {torch.__version__}.\n\n{table(rows, args.device)}"
    print("\r" + page)
    if args.out:
        files.write_atomic(args.out.resolve(), f"# Solutions beside PyTorch's own operations\n\n{page}")
    if args.plot:
        plot(rows, args.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
