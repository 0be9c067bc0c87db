"""How near right attempts come to the error budget, over thousands of inputs: no worker, values and gradients alone.

    python benchmarks/margins.py [KATA ...] [--seeds 1000] [--dtype float32]

Every case that is graded in this dtype is drawn with each seed, and the solution and the right attempts are
held to the budget as a grading would hold them. The table tells the largest error in units of the allowed one, by kata,
case and attempt, worst first; it should stay below 0.3, and whatever is above 1 is a right attempt rejected.
"""

from __future__ import annotations

import argparse
import sys
import types
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

import torch  # noqa: E402

from benchmarks import subjects  # noqa: E402
from dojo.content import catalog, master  # noqa: E402
from dojo.contracts import Call, Contract, Draw  # noqa: E402
from dojo.contracts.checks import tolerance  # noqa: E402
from dojo.judge.fork_server import ForkServer  # noqa: E402
from dojo.judge.pool import WorkerPool, processors  # noqa: E402

ABOVE = 0.3
Job = tuple[str, str, str, range, torch.dtype]  # kata, contract, case, seeds, dtype
Worst = dict[tuple[str, str], tuple[float, int, int]]  # (attempt, value): largest usage, its seed, how many above 1


def right_attempts(kata: catalog.Kata) -> Iterator[tuple[str, dict]]:
    """The names that the solution and each right attempt define."""
    sources = {"solution": master.read_text(kata.master)} | subjects.attempts(kata)
    for name, source in sources.items():
        module = types.ModuleType(f"attempt_{name}")  # one is called einops
        sys.modules[module.__name__] = module
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
        yield name, module.__dict__


def formula(contract: type[Contract], target: object) -> tolerance.Formula:
    """An attempt's function or module as the error rule evaluates formulas."""

    def evaluate(init: dict, params: dict, **inputs: object) -> torch.Tensor:
        items, required = list(inputs.items()), contract.signature.required
        args, kwargs = [v for _, v in items[:required]], dict(items[required:])
        if not init and not params:
            return target(*args, **kwargs)
        module = target(**init)
        floating = [v.dtype for v in [*params.values(), *inputs.values()] if tolerance.is_floating(v)]
        module = module.to(floating[0]) if floating else module
        if getattr(contract, "buffers", ()):
            module.train(contract().trains(Call(inputs, init, params)))
        return torch.func.functional_call(module, params, tuple(args), kwargs)

    return evaluate


def worst_of(job: Job, _: ForkServer) -> tuple[Job, Worst]:
    """The largest usage of each attempt in one case, over all seeds."""
    kata, name, case, seeds, dtype = job
    contract = subjects.contracts(catalog.katas()[kata])[name]
    make = (contract.cases | contract.more_shapes | contract.hard_cases | contract.dead_rows)[case]
    attempts = [(who, formula(contract, names[contract.name])) for who, names in right_attempts(catalog.katas()[kata])]
    worst: Worst = {}
    for seed in seeds:
        draw = Draw(seed)
        call: Call = make(draw).cast(dtype)
        given = (call.init, call.params, call.inputs)
        budget = contract().budget(draw, call, dtype, gradients=contract.differentiable)
        for who, attempt in attempts:
            torch.manual_seed(seed)
            pull = (lambda _, drawn=budget.cotangents: drawn) if contract.differentiable else None
            found = tolerance.evaluate(attempt, *given, pull, contract.results, contract.constants)
            for value, got in found.items():
                if got is None:  # as a gradient may be
                    continue
                ratio = tolerance.error_ratio(got, budget.exact[value], budget.allowed(value))
                used = float(ratio.nan_to_num(nan=torch.inf).max()) if got.numel() else 0.0
                most, at, above = worst.get((who, value), (-1.0, seed, 0))
                worst[who, value] = (*((used, seed) if used > most else (most, at)), above + (used > 1))
    return job, worst


def main() -> int:
    """Print what comes nearest; returns 1 if anything is above the budget."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="KATA")
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--dtype", default="float32", choices=["float32", "float64", "float16", "bfloat16"])
    args = parser.parse_args()
    dtype, seeds = getattr(torch, args.dtype), range(args.first_seed, args.first_seed + args.seeds)
    jobs = [
        (kata.name, name, case, seeds, dtype)
        for kata in subjects.chosen(parser, args.names)
        for name, contract in subjects.contracts(kata).items()
        for case in (
            (*contract.cases, *contract.more_shapes, *contract.hard_cases)
            if dtype is torch.float32
            else contract().representative_cases()
        )
    ]
    torch.set_num_threads(1)
    found: list[tuple[float, str]] = []
    calm: dict[str, float] = {}

    def finished(result: tuple[Job, Worst]) -> None:
        (kata, name, case, *_), worst = result
        for (who, value), (used, seed, above) in worst.items():
            calm[kata] = max(calm.get(kata, 0.0), used)
            if used > ABOVE:
                found.append((used, f"{kata} {name} {case}, {who}: {value} {used:.3g} (seed {seed}), {above} above 1"))
        print(f"\r{kata} {case} ".ljust(70), end="", file=sys.stderr, flush=True)

    server = ForkServer()
    with WorkerPool(worst_of, server, processors()) as pool:
        pool.map(jobs, finished)
    server.close()
    print()
    for _, line in sorted(found, reverse=True):
        print(line)
    print("\n".join(f"{kata:20} {used:.3f}" for kata, used in calm.items()))
    return 1 if any(used > 1 for used, _ in found) else 0


if __name__ == "__main__":
    sys.exit(main())
