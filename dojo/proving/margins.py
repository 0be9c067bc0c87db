"""How near right answers come to the error budget, over many inputs: no worker, values and gradients alone."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dojo.content import catalog, master, proofs
from dojo.content.catalog import Kata
from dojo.contracts import Call, Contract, Draw
from dojo.contracts.checks import tolerance
from dojo.contracts.checks.ranks import OnRanks
from dojo.judge.fork_server import ForkServer
from dojo.judge.pool import WorkerPool, processors
from dojo.judge.protocol import mapped
from dojo.judge.worker import arrays

MOST = 0.3  # of the budget that a right answer may use
Job = tuple[Kata, str, str, range, torch.dtype]  # contract, case, seeds
Worst = dict[tuple[str, str], tuple[float, int, int]]  # (answer, value): largest usage, its seed, how many above 1


def contracts(kata: Kata) -> dict[str, type[Contract]]:
    """The contract classes of tensors in a kata's grader, by name, but for those of ranks: here is one process."""
    module = catalog.load(kata.grader)
    found = {name: each for name, each in vars(module).items() if inspect.isclass(each) and issubclass(each, Contract)}
    found = {name: each for name, each in found.items() if hasattr(each, "name") and hasattr(each, "cases")}
    return {name: each for name, each in found.items() if not issubclass(each, OnRanks)}


def measure(
    katas: list[Kata],
    seeds: range,
    dtype: torch.dtype,
    server: ForkServer,
    finished: Callable[[tuple[Job, Worst]], None] = lambda result: None,
) -> list[tuple[Job, Worst]]:
    """The largest usage of each right answer in every case of these katas that is graded in this dtype."""
    torch.set_num_threads(1)
    jobs: list[Job] = []
    for kata in katas:
        for name, contract in contracts(kata).items():
            every = (*contract.cases, *contract.more_shapes, *contract.hard_cases)
            cases = every if dtype is torch.float32 else contract().representative_cases()
            jobs += [(kata, name, case, seeds, dtype) for case in cases]
    if not jobs:
        return []
    with WorkerPool(_worst, server, processors()) as pool:
        return pool.map(jobs, finished)


def _answers(kata: Kata) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names that the solution and each right answer define."""
    for name, source in ({"solution": master.read_text(kata.master)} | proofs.right_attempts(kata)).items():
        module = types.ModuleType(f"attempt_{name}")  # one is called einops
        sys.modules[module.__name__] = module
        exec(compile(source, f"{name}.py", "exec"), module.__dict__)
        yield name, module.__dict__


def _formula(contract: type[Contract], target: Any) -> tolerance.Formula:
    """An answer's function or module as the error rule evaluates formulas."""

    if contract.in_numpy:
        function = arrays.in_arrays(target)
        return lambda init, params, **inputs: mapped(torch.as_tensor, function(**inputs).as_tensors())

    def evaluate(init: dict[str, Any], params: dict[str, Any], **inputs: Any) -> Any:
        items, required = list(inputs.items()), contract.signature.required
        args, kwargs = [v for _, v in items[:required]], dict(items[required:])
        if not init and not params:
            return contract.in_order(target(*args, **kwargs))
        module = target(**init)
        floating = [v.dtype for v in [*params.values(), *inputs.values()] if tolerance.is_floating(v)]
        module = module.to(floating[0]) if floating else module
        if getattr(contract, "buffers", ()):
            module.train(contract().trains(Call(inputs, init, params)))
        return torch.func.functional_call(module, params, tuple(args), kwargs)

    return evaluate


def _worst(job: Job, _: ForkServer) -> tuple[Job, Worst]:
    kata, name, case, seeds, dtype = job
    contract = contracts(kata)[name]
    make = (contract.cases | contract.more_shapes | contract.hard_cases | contract.dead_rows)[case]
    answers = [(who, _formula(contract, names[contract.name])) for who, names in _answers(kata)]
    worst: Worst = {}
    for seed in seeds:
        draw = Draw(seed)
        call = make(draw).cast(dtype)
        given = (call.init, call.params, call.inputs)
        budget = contract().budget(draw, call, dtype, gradients=contract.differentiable)
        for who, answer in answers:
            torch.manual_seed(seed)
            pull = (lambda _, drawn=budget.cotangents: drawn) if contract.differentiable else None
            found = tolerance.evaluate(answer, *given, pull, contract.results, contract.constants)
            for value, got in found.items():
                if got is None:  # as a gradient may be
                    continue
                ratio = tolerance.error_ratio(got, budget.exact[value], budget.allowed(value))
                used = float(ratio.nan_to_num(nan=torch.inf).max()) if got.numel() else 0.0
                most, at, above = worst.get((who, value), (-1.0, seed, 0))
                worst[who, value] = (*((used, seed) if used > most else (most, at)), above + (used > 1))
    return job, worst
