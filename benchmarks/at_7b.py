"""Solutions on a GPU at the sizes of a 7B model, beside PyTorch's own operation and beside what the GPU can do.

    nox -s bench -- KATA ... --device cuda [--pairs 20]     prints the rows; all katas that have one when it is `all`

The sizes are those of a batch of 4 texts of 4096 tokens, 32 heads of 128, 8 key heads, hidden layers of 11008 and 32000
tokens to choose from; scores, which a kata holds in memory and its peer does not, are those of one text. The limit is
the larger of two times: the bytes that must be read and written once over what a copy moves in a second, and the
floating-point operations over what a matrix product makes of them, both measured before.
"""

from __future__ import annotations

import itertools
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.bench import measured, runs, seconds
from benchmarks.peers import Work, attention, heads, optimised, pre_norm, swiglu, turned, turns_of, weights
from dojo.content import catalog, files
from dojo.judge import precision

BATCH, SEQ, HEADS, KV_HEADS, HEAD_DIM, D_MODEL, D_FF, VOCAB = 4, 4096, 32, 8, 128, 4096, 11008, 32000
TOKENS = BATCH * SEQ
DTYPES = (torch.bfloat16, torch.float32)
APART = {torch.bfloat16: 2e-2, torch.float32: 1e-4}  # how far two results may be, as a share of their norm


class Task(NamedTuple):
    """What is to be done, the elements that it must read and write at least, and its floating-point operations."""

    work: Work
    elements: float
    operations: float = 0.0


class Case(NamedTuple):
    """A solution's callable, what it is measured against in words, and the task."""

    kata: str
    name: str
    beside: str
    make: Callable[[ModuleType], Task]
    backward: bool


class Figures(NamedTuple):
    """Of a case in a dtype: milliseconds, and ratios to the peer and to the limit."""

    case: Case
    dtype: torch.dtype
    forward: float
    to_peer: float
    to_limit: float
    backward: float | None  # with its forward, beside the peer's


CASES: list[Case] = []


def case(kata: str, beside: str, backward: bool = True) -> Callable[[Callable[[ModuleType], Task]], None]:
    """List a function as a case, by its own name."""

    def enter(make: Callable[[ModuleType], Task]) -> None:
        CASES.append(Case(kata, make.__name__, beside, make, backward))

    return enter


def hidden(width: int | None = None) -> Tensor:
    return torch.randn(BATCH, SEQ, width or D_MODEL)


def projections(*widths: int) -> float:
    """Operations of linear layers on all tokens, each between two of these widths that stand side by side."""
    return 2.0 * TOKENS * sum(a * b for a, b in zip(widths[::2], widths[1::2], strict=True))


def scores(batch: int, share: float = 1.0) -> float:
    """Operations of attention with all its heads, of which so much need be computed."""
    return 4.0 * share * batch * HEADS * SEQ * SEQ * HEAD_DIM


@case("softmax", "torch.softmax")
def softmax(m: ModuleType) -> Task:
    n = HEADS * SEQ * SEQ
    return Task(Work(m.softmax, lambda x: torch.softmax(x, -1), (torch.randn(1, HEADS, SEQ, SEQ),)), 2 * n)


@case("linear", "F.linear")
def Linear(m: ModuleType) -> Task:  # noqa: N802
    ours = m.Linear(D_MODEL, D_MODEL)
    work = Work(ours, lambda x: F.linear(x, ours.weight), (hidden(),))
    return Task(work, 2 * TOKENS * D_MODEL + D_MODEL**2, projections(D_MODEL, D_MODEL))


@case("embedding", "F.embedding", backward=False)
def Embedding(m: ModuleType) -> Task:  # noqa: N802
    ours = m.Embedding(VOCAB, D_MODEL)
    return Task(
        Work(ours, lambda i: F.embedding(i, ours.weight), (torch.randint(VOCAB, (BATCH, SEQ)),)), 2 * TOKENS * D_MODEL
    )


@case("rmsnorm", "F.rms_norm")
def RMSNorm(m: ModuleType) -> Task:  # noqa: N802
    ours = m.RMSNorm(D_MODEL)
    return Task(Work(ours, lambda x: F.rms_norm(x, (D_MODEL,), ours.weight, 1e-5), (hidden(),)), 2 * TOKENS * D_MODEL)


@case("layernorm", "F.layer_norm")
def LayerNorm(m: ModuleType) -> Task:  # noqa: N802
    ours = m.LayerNorm(D_MODEL)
    work = Work(ours, lambda x: F.layer_norm(x, (D_MODEL,), ours.weight, ours.bias), (hidden(),))
    return Task(work, 2 * TOKENS * D_MODEL)


@case("activations", "F.silu")
def silu(m: ModuleType) -> Task:
    return Task(Work(m.silu, F.silu, (hidden(D_FF),)), 2 * TOKENS * D_FF)


@case("activations", "F.gelu")
def gelu(m: ModuleType) -> Task:
    return Task(Work(m.gelu, F.gelu, (hidden(D_FF),)), 2 * TOKENS * D_FF)


@case("rope", "complex products, as Llama and torchtitan rotate")
def RoPEReal(m: ModuleType) -> Task:  # noqa: N802
    table = turns_of(HEAD_DIM, SEQ)
    inputs = (torch.randn(BATCH, HEADS, SEQ, HEAD_DIM), torch.arange(SEQ))
    work = Work(m.RoPEReal(HEAD_DIM, SEQ), lambda x, positions: turned(x, table[positions]), inputs)
    return Task(work, 2 * TOKENS * D_MODEL)


@case("sdpa", "F.scaled_dot_product_attention with the mask")
def scaled_dot_product_attention(m: ModuleType) -> Task:
    q, k, v = torch.randn(3, 1, HEADS, SEQ, HEAD_DIM)
    mask = torch.ones(SEQ, SEQ, dtype=torch.bool).tril()
    work = Work(m.scaled_dot_product_attention, F.scaled_dot_product_attention, (q, k, v, mask))
    return Task(work, 4 * SEQ * D_MODEL, scores(1))


@case("flash_attention", "F.scaled_dot_product_attention(is_causal=True)")
def flash_attention(m: ModuleType) -> Task:
    inputs = tuple(torch.randn(3, BATCH, HEADS, SEQ, HEAD_DIM))
    theirs = lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)  # noqa: E731
    ours = lambda q, k, v: m.flash_attention(q, k, v, True)[0]  # noqa: E731
    return Task(Work(ours, theirs, inputs), 4 * TOKENS * D_MODEL, scores(BATCH, 0.5))


@case("gqa", "F.scaled_dot_product_attention between F.linear")
def GroupedQueryAttention(m: ModuleType) -> Task:  # noqa: N802
    ours = m.GroupedQueryAttention(D_MODEL, HEADS, KV_HEADS)
    work = Work(ours, lambda x: attention(weights(ours), "", HEAD_DIM, x), (hidden()[:1],))
    kv = KV_HEADS * HEAD_DIM
    operations = projections(D_MODEL, D_MODEL, D_MODEL, kv, D_MODEL, kv, D_MODEL, D_MODEL) / BATCH
    return Task(work, 2 * SEQ * D_MODEL, operations + scores(1))


@case("swiglu", "F.silu and a product between F.linear")
def SwiGLU(m: ModuleType) -> Task:  # noqa: N802
    ours = m.SwiGLU(D_MODEL, D_FF)
    work = Work(ours, lambda x: swiglu(weights(ours), "", x), (hidden(),))
    return Task(work, 2 * TOKENS * D_MODEL + 3 * D_MODEL * D_FF, projections(*(D_MODEL, D_FF) * 3))


@case("block", "F.rms_norm, fused attention and F.linear")
def PreNormBlock(m: ModuleType) -> Task:  # noqa: N802
    ours = m.PreNormBlock(D_MODEL, HEADS, D_FF)
    w = weights(ours)
    operations = projections(*(D_MODEL, D_MODEL) * 4, *(D_MODEL, D_FF) * 3) / BATCH + scores(1)
    work = Work(ours, lambda x: pre_norm(w, HEAD_DIM, x), (hidden()[:1],))
    return Task(work, 2 * SEQ * D_MODEL, operations)


@case("cross_entropy", "F.cross_entropy")
def cross_entropy(m: ModuleType) -> Task:
    inputs = (torch.randn(TOKENS, VOCAB), torch.randint(VOCAB, (TOKENS,)))
    return Task(Work(m.cross_entropy, F.cross_entropy, inputs), TOKENS * VOCAB)


@case("kv_cache", "F.scaled_dot_product_attention over the cache, between F.linear", backward=False)
def CachedAttention(m: ModuleType) -> Task:  # noqa: N802
    ours = m.CachedAttention(D_MODEL, HEADS, SEQ + 1, num_kv_heads=KV_HEADS)
    cache, w = m.KVCache(BATCH, KV_HEADS, SEQ + 1, HEAD_DIM), weights(ours)
    cache.append(*torch.randn(2, BATCH, KV_HEADS, SEQ, HEAD_DIM))
    turns = turns_of(HEAD_DIM, SEQ + 1)[SEQ:]

    def step(x: Tensor) -> Tensor:
        cache.truncate(SEQ)
        return ours(x, cache)

    def theirs(x: Tensor) -> Tensor:
        q, k, v = (heads(F.linear(x, w[f"{name}_proj.weight"]), HEAD_DIM) for name in "qkv")
        cache.keys[:, :, SEQ:], cache.values[:, :, SEQ:] = turned(k, turns), v
        out = F.scaled_dot_product_attention(turned(q, turns), cache.keys, cache.values, enable_gqa=True)
        return F.linear(out.transpose(-3, -2).flatten(-2), w["o_proj.weight"])

    kept = 2 * BATCH * KV_HEADS * SEQ * HEAD_DIM
    return Task(Work(step, theirs, (torch.randn(BATCH, 1, D_MODEL),)), kept + 2.5 * D_MODEL**2)


@case("adamw", "torch.optim.AdamW(foreach=True)", backward=False)
def AdamW(m: ModuleType) -> Task:  # noqa: N802
    shapes = [(D_MODEL, D_MODEL)] * 4 + [(D_MODEL, D_FF)] * 3

    work = optimised(m.AdamW, *shapes)
    return Task(work, 7 * sum(a * b for a, b in shapes))  # reads parameter, gradient and two moments, writes three


def limits() -> tuple[float, dict[torch.dtype, float]]:
    """Bytes that a copy moves in a second, read and written, and operations a second of a product by dtype."""
    source = torch.randn(1 << 29)
    target = torch.empty_like(source)
    moved = 2 * source.nbytes / _best(lambda: target.copy_(source))
    made = {}
    for dtype in DTYPES:
        a, b = torch.randn(2, 8192, 8192, dtype=dtype)
        made[dtype] = 2 * 8192**3 / _best(lambda a=a, b=b: a @ b)
    return moved, made


def _best(run: Callable[[], object]) -> float:
    for _ in range(3):
        run()
    return statistics.median(seconds(run, 3, "cuda") for _ in range(7))


def figures(each: Case, dtype: torch.dtype, pairs: int, moved: float, made: float) -> Figures:
    """Measure one case in one dtype.

    Raises:
        AssertionError: the two do not give the same values, where they should.
    """
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        task = each.make(catalog.load(catalog.named(each.kata).master))
        with torch.no_grad():
            pair = runs(task.work, backward=False)
            if task.work.alike:
                ours, theirs = (run().float() for run in pair)
                apart = float((ours - theirs).norm() / theirs.norm())
                assert apart < APART[dtype], f"{each.kata}: {each.name} is {apart:.2g} from its peer in {dtype}"
                del ours, theirs
            ratio, forward, _ = measured(pair, "cuda", pairs)
        del pair
        backward = measured(runs(task.work, backward=True), "cuda", pairs)[0] if each.backward else None
        limit = max(task.elements * dtype.itemsize / moved, task.operations / made)
        return Figures(each, dtype, forward * 1e3, ratio, forward / limit, backward)
    finally:
        torch.set_default_dtype(before)


def measure(katas: set[str], pairs: int, out: Path | None) -> int:
    """Print the table of the cases of these katas, and write it to a file if one is named; returns the exit status."""
    chosen = [each for each in CASES if each.kata in katas]
    if not chosen:
        known = ", ".join(dict.fromkeys(each.kata for each in CASES))
        print(f"none of these has a row on a GPU; those that have: {known}", file=sys.stderr)
        return 2
    precision.full()
    with torch.device("cuda"):
        moved, made = limits()
        found = []
        for each, dtype in itertools.product(chosen, DTYPES):
            print(f"\r{each.kata}: {each.name}, {_word(dtype)} ".ljust(70), end="", file=sys.stderr, flush=True)
            found.append(figures(each, dtype, pairs, moved, made[dtype]))
            print(f"\r{_row(found[-1])}", flush=True)
            torch.cuda.empty_cache()
    print(f"\r{' ' * 70}\r", end="", file=sys.stderr, flush=True)
    text = f"On one {torch.cuda.get_device_name()}, torch {torch.__version__}. {page(found, moved, made)}"
    print(text.partition("\n")[0])
    if out is not None:
        files.write_atomic(out.resolve(), text)
    return 0


def page(found: list[Figures], moved: float, made: dict[torch.dtype, float]) -> str:
    """Markdown: what the GPU does, and a row for each case."""
    products = ", ".join(f"{rate / 1e12:.0f} TFLOP/s in {_word(dtype)}" for dtype, rate in made.items())
    lines = [
        f"A copy moves {moved / 1e12:.2f} TB/s, read and written; a product of 8192 × 8192 makes {products}.\n",
        "| kata | solution | beside | dtype | ms | × the peer | × the limit | with backward, × the peer |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(_row, found)]) + "\n"


def _row(each: Figures) -> str:
    back = "–" if each.backward is None else f"{each.backward:.2f}"
    named = f"`{each.case.kata}` | `{each.case.name}` | {each.case.beside} | {_word(each.dtype)}"
    return f"| {named} | {each.forward:.2f} | {each.to_peer:.2f} | {each.to_limit:.2f} | {back} |"


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
