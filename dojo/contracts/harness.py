"""How a contract reaches what it judges: calls made ready, run, and held against the oracle under the error rule."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_stack
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from dojo.content.signature import Signature, signature_of
from dojo.contracts.checks import tolerance
from dojo.contracts.checks.assertions import Wrong, match, tensor
from dojo.contracts.checks.inputs import Call, Draw
from dojo.contracts.checks.timing import Race, race
from dojo.contracts.checks.tolerance import Budget, Formula, cached, is_floating, value_key
from dojo.judge.protocol import Args, Kwargs
from dojo.judge.proxy import Attempt, Callee, Module, PreparedCall
from dojo.verdict.failures import Fault
from dojo.verdict.repro import FailingCall
from dojo.verdict.types import Label, Section

core, robust, fast = pytest.mark.core, pytest.mark.robust, pytest.mark.fast
half_precisions = pytest.mark.parametrize("dtype", tolerance.HALF, ids=lambda d: str(d).removeprefix("torch."))

Maker = Callable[[Draw], Call]
WARM_UPS = 2


class HouseRules:
    """What every contract has: the master's signature, and the rules that hold.

    A grader states `name`, the callable; what the callable takes stands in the master's signature.
    """

    name: ClassVar[str]
    axes: ClassVar[dict[str, str]]  # the names of the axes of each input and of the result; the signature's by default
    master: ClassVar[Path]
    signature: ClassVar[Signature]
    needs: ClassVar[dict[str, str]] = {}  # what a check cannot do without, by the check
    off: ClassVar[dict[str, str]] = {}  # house rules that do not hold for this kata: the check, and why

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if not hasattr(cls, "name"):
            return
        grader = file_of(cls)
        cls.master = grader.parents[2] / "solutions" / grader.parent.name / grader.name
        cls.signature = signature_of(cls.master, cls.name)
        cls.axes = cls.signature.axes | getattr(cls, "axes", {})
        cls.complete()
        for check, what in cls.needs.items():
            if not getattr(cls, what, None):
                setattr(cls, check, None)
        for check in cls.off:
            setattr(cls, check, None)

    @classmethod
    def complete(cls) -> None:
        """Fill in what a grader leaves to be derived; called once for each class that has a name."""


class Harness(HouseRules):
    """What every contract of tensors is given."""

    oracle: ClassVar[Formula]
    variants: ClassVar[Sequence[Formula]]
    rounded_once: ClassVar[bool] = False  # half precision is held to float32 arithmetic and one rounding
    timed: Maker
    time_limit: ClassVar[float]

    def verify(
        self,
        attempt: Attempt,
        draw: Draw,
        case: str,
        call: Call,
        dtype: torch.dtype = torch.float32,
        gradients: bool = False,
        training: bool = True,
    ) -> None:
        """Run one call in this dtype and hold its result, or its gradients, against the oracle."""
        self.verify_all(attempt, draw, [(case, call)], dtype, gradients, training)

    def verify_all(
        self,
        attempt: Attempt,
        draw: Draw,
        calls: Iterable[tuple[str, Call]],
        dtype: torch.dtype = torch.float32,
        gradients: bool = False,
        training: bool = True,
    ) -> None:
        """The same for several calls, which go to the worker in one message; the first that fails ends the check."""
        asked, expected = [], []
        for case, made in calls:
            call = made.cast(dtype)
            callee = self.ready(attempt, call, dtype)
            if not training and isinstance(callee, Module):
                callee.eval()
            args, kwargs = self.arguments(call.to(attempt.device))
            budget = self.budget(draw, call, dtype, gradients)
            request = {"do": "call", "target": callee.target, "args": args, "kwargs": kwargs}
            if budget.cotangent is not None:
                request |= {"do": "forward_backward", "cotangent": transposed(budget.cotangent).to(attempt.device)}
            asked.append((callee, request))
            expected.append((case, call, budget))
        answers = attempt.ask_each(asked)
        for (case, call, budget), (callee, _) in zip(expected, asked, strict=True):
            with self.case_context(attempt, case, call):
                answer = next(answers)
            got = {"result": answer["value"]}
            if gradients:
                got |= {f"gradient of {name}": grad for name, grad in callee.renamed(answer["gradients"]).items()}
                leaves = [name for name, value in self.signature.in_order(call.inputs).items() if is_floating(value)]
                # A forged answer may hold too few: what is missing is a gradient that does not come back.
                got |= {f"gradient of {name}": g for name, g in zip(leaves, answer["inputs"], strict=False)}
            self.compare(attempt, draw, case, call, got, dtype, budget)

    def compare(
        self,
        attempt: Attempt,
        draw: Draw,
        case: str,
        call: Call,
        got: dict[str, Any],
        dtype: torch.dtype = torch.float32,
        budget: Budget | None = None,
    ) -> None:
        """Hold results and gradients against the oracle under the error rule."""
        with self.case_context(attempt, case, call):
            result = tensor(got["result"], attempt.device)
            if result.dtype is not dtype:
                seen = Section(Label.FACTS, f"got {bare(result.dtype)} for {bare(dtype)}")
                whose = "input" if any(map(is_floating, call.inputs.values())) else "parameters"
                raise Wrong(f"the result has the dtype of the {whose}", seen, where=case)
            budget = budget or self.budget(draw, call, dtype)
            for name, expected in budget.exact.items():
                value = got.get(name)
                if value is None:
                    raise Wrong(f"the result is differentiable: no {name} comes back", where=f"{case}: {name}")
                sentence = f"{name} matches the definition" if name == "result" else f"{name} is right"
                axes = self.axes.get(name.removeprefix("gradient of "), "out in")
                value = value.cpu() if isinstance(value, Tensor) else value
                inputs = call.inputs if name == "result" else {}
                try:
                    worst = budget.usage(name, value)
                    if worst is None:
                        worst = match(value, expected, budget.allowed(name), sentence, axes, inputs=inputs)
                except Wrong as wrong:
                    wrong.where, wrong.cotangent = f"{case}: {name}", budget.cotangent
                    attempt.error_ratio = max(attempt.error_ratio, wrong.worst)
                    raise
                attempt.error_ratio = max(attempt.error_ratio, worst)

    def expected(self, call: Call) -> Tensor:
        """The oracle's result in float64."""
        exact = call.cast(torch.float64)
        return tolerance.evaluate(type(self).oracle, exact.init, exact.params, exact.inputs)["result"]

    def budget(self, draw: Draw, call: Call, dtype: torch.dtype, gradients: bool = False) -> Budget:
        """What the oracle expects of this call, and how far an attempt may be from it."""

        def cotangent_of(result: Tensor) -> Tensor:
            # Bounded: a row without keys may be divided by the smallest normal number, and must not overflow.
            return draw.uniform(*result.shape, low=-1.0, high=1.0)

        def compute() -> Budget:
            # Autograd may round parts of a gradient before it adds them up: only results are held to one rounding.
            once, pull = self.rounded_once and not gradients, cotangent_of if gradients else None
            return Budget(mine.oracle, self.variants, *given, pull, dtype, draw.generator, once)

        mine, given = type(self), (call.init, call.params, call.inputs)
        key = (mine.__module__, mine.__qualname__, dtype, gradients, *map(value_key, given))
        return cached(key, compute, draw.generator)

    def ready(self, attempt: Attempt, call: Call, dtype: torch.dtype = torch.float32) -> Callee:
        """The callable under test, ready for calls in this dtype on the device of the grading."""
        return getattr(attempt, self.name)

    def arguments(self, call: Call) -> tuple[Args, Kwargs]:
        """Inputs by position, as the contract's signature takes them: what an attempt calls them is for one check."""
        return self.signature.call(call.inputs)

    def prepare_call(self, attempt: Attempt, call: Call) -> PreparedCall:
        """What to call, with its parameters loaded, and the arguments of a call, on the device of the grading."""
        call = call.to(attempt.device)
        return self.ready(attempt, call), *self.arguments(call)

    def run(self, attempt: Attempt, case: str, call: Call, dtype: torch.dtype = torch.float32) -> Tensor:
        """The result of one call without gradients, on the CPU."""
        with self.case_context(attempt, case, call):
            callee = self.ready(attempt, call, dtype)
            args, kwargs = self.arguments(call.to(attempt.device))
            return tensor(callee.request(args, kwargs)["value"], attempt.device).cpu()

    def race(self, attempt: Attempt, reference: Attempt, draw: Draw) -> Race:
        """Time the attempt against the reference on changed inputs, outputs spot-checked."""
        call = type(self).timed(draw)
        mine, theirs = self.runner(attempt, call, draw, check=True), self.runner(reference, call, draw, check=False)
        for run in (mine, theirs):
            for _ in range(WARM_UPS):
                run()
        return race(mine, theirs, self.time_limit, draw.random())

    def runner(self, attempt: Attempt, call: Call, draw: Draw, check: bool) -> Callable[[], tuple[float, float]]:
        """A function that times one call on new content, and once looks at the answer if it is to check it."""
        callee, args, kwargs = self.prepare_call(attempt, call)
        staged = callee.stage(*args, **kwargs)
        runs, scale = 0, 1.0

        def run() -> tuple[float, float]:
            nonlocal runs, scale
            runs += 1
            before, scale = scale, 0.5 + torch.rand((), generator=draw.generator).item()
            staged.rescale(scale / before)
            cpu, wall, kept = staged.timed()
            if check and runs == WARM_UPS + 1:
                fresh = {k: v * scale if is_floating(v) else v for k, v in call.inputs.items()}
                got = tensor(staged.fetch(kept), attempt.device)
                self.spot_check(call.with_inputs(**fresh), got.cpu())
            return (wall, wall) if attempt.device == "cuda" else (cpu, wall)

        return run

    def spot_check(self, call: Call, got: Tensor) -> None:
        """A timed answer is a real one: within one part in a hundred of the oracle, row by row."""
        expected = self.expected(call)
        scale = expected.abs().amax(-1, keepdim=True).clamp_min(1e-6)
        sentence = "the answer of a timed call is right"
        match(got, expected, 0.01 * scale.expand(expected.shape), sentence, self.axes["result"])

    @contextmanager
    def case_context(self, attempt: Attempt, case: str, call: Call) -> Iterator[None]:
        """A context in which any fault also tells the failing case in words."""
        try:
            yield
        except Fault as fault:
            told = f"case `{case}`: {call.describe(self.axes, attempt.device)}"
            fault.sections.append(Section(Label.INPUT, told))
            args, kwargs = self.signature.call(call.inputs)
            built = self.signature.construction(call.init) if self.signature.init else None
            fault.failing = FailingCall(self.name, built, call.params, args, kwargs, self.signature.inputs[: len(args)])
            if isinstance(fault, Wrong):
                fault.failing.expected = fault.expected
                if ": gradient of " in fault.where and fault.cotangent is not None:
                    fault.failing.gradient_of = fault.where.rpartition(": gradient of ")[2]
                    fault.failing.cotangent = fault.cotangent
            raise


def file_of(made: type) -> Path:
    """The file whose code is making this class: a grader, under whatever name it is imported."""
    frames = (frame for frame, _ in walk_stack(sys._getframe(1)))
    frame = next(frame for frame in frames if frame.f_globals.get("__name__") == made.__module__)
    return Path(frame.f_globals["__file__"])


def bare(dtype: torch.dtype) -> str:
    """`float32` for torch.float32."""
    return str(dtype).removeprefix("torch.")


def transposed(t: Tensor) -> Tensor:
    """The same values with the last axis no longer the dense one."""
    if t.dim() < 2:
        return torch.stack([t, t], -1)[..., 0]
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)
