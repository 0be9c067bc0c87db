"""How a contract reaches what it judges: calls made ready, run, and held against the oracle under the error rule."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from traceback import walk_stack
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from dojo.content.signature import Signature, signature_of
from dojo.contracts.checks import tolerance
from dojo.contracts.checks.assertions import Wrong, fail, match, noting, tensor
from dojo.contracts.checks.inputs import Call, Draw
from dojo.contracts.checks.timing import Race, race
from dojo.contracts.checks.tolerance import Budget, Formula, cached, is_floating, remembered, value_key
from dojo.judge import protocol
from dojo.judge.protocol import Args, Kwargs, mapped
from dojo.judge.proxy import Attempt, Callee, Module, PreparedCall
from dojo.verdict.failures import Fault
from dojo.verdict.repro import FailingCall

core, robust, fast = pytest.mark.core, pytest.mark.robust, pytest.mark.fast
half_precisions = pytest.mark.parametrize("dtype", tolerance.HALF, ids=lambda d: str(d).removeprefix("torch."))

Maker = Callable[[Draw], Call]
WARM_UPS = 1
# On a GPU the backward of fused attention computes weights again, as exp(score - logsumexp). Where scores are as large
# as 100,000 these are off by thousandths, which no sum takes out again. So much of a row's largest gradient it may be.
FUSED = 0.02


class HouseRules:
    """What every contract has: the master's signature, and the rules that hold.

    A grader states `name`, the callable; what the callable takes stands in the master's signature.
    """

    name: ClassVar[str]
    stage: ClassVar[int] = 0  # of a kata with stages: the first in which this holds
    axes: ClassVar[dict[str, str]]  # the names of the axes of each input and of the result; the signature's by default
    master: ClassVar[Path]
    signature: ClassVar[Signature]
    needs: ClassVar[dict[str, str]] = {}  # what a check cannot do without, by the check
    holds: ClassVar[dict[str, tuple[str, ...]]] = {}  # by topic of the contract the beginnings of its checks' names
    off: ClassVar[dict[str, str]] = {}  # house rules that do not hold for this kata: the check, and why
    only_case: str = ""  # of what is verified: the others are drawn and not asked, for who runs a check again
    last_case: str = ""  # where a check may end: what comes after it is of no use to who runs it again

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if not hasattr(cls, "name"):
            return
        grader = file_of(cls)
        cls.master = grader.parents[3] / "solutions" / grader.parents[1].name / f"{grader.parent.name}.py"
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

    oracle: ClassVar[Formula]  # takes inputs by name, and `init` and `params`, whichever it names
    variants: ClassVar[Sequence[Formula]]
    results: ClassVar[tuple[str, ...]] = ()  # the names of several results, in their order
    constants: ClassVar[tuple[str, ...]] = ()  # inputs that get no gradient, and parameters that are frozen
    differentiable: ClassVar[bool] = True
    half: ClassVar[tuple[torch.dtype, ...]] = tolerance.HALF  # what it is tried in; none where it is not graded
    rounded_once: ClassVar[bool] = False  # half precision is held to float32 arithmetic and one rounding
    timed: Maker
    timed_scale: ClassVar[tuple[float, float]] = (0.5, 1.5)  # what the inputs of a timed call are multiplied by
    time_limit: ClassVar[float] = 15.0
    in_numpy: ClassVar[bool] = False  # an attempt is given arrays, and gives arrays back
    through: ClassVar[str] = ""  # what of `drivers.ADAPTERS` stands between the judge and the callable

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if hasattr(cls, "name"):
            if len({*map(id, cls.variants)}) < len(cls.variants):
                raise TypeError(f"{cls.__name__} has a variant twice: state each once, however few there are")
            cls.oracle = cls.formula(cls.oracle)
            cls.variants = tuple(map(cls.formula, cls.variants))

    @classmethod
    def formula(cls, written: Formula) -> Formula:
        """The formula of constructor arguments, parameters and inputs, of which it takes what it names.

        What a call leaves out has the default that stands in the master's signature.
        """
        named = inspect.signature(written).parameters
        takes_all = any(each.kind is each.VAR_KEYWORD for each in named.values())

        def whole(init: dict[str, Any], params: dict[str, Tensor], **inputs: Any) -> Any:
            own = {"init": cls.signature.init_defaults | init, "params": params}
            given = cls.signature.defaults | inputs
            taken = {name: value for name, value in given.items() if takes_all or name in named}
            return written(**taken, **{name: value for name, value in own.items() if name in named})

        return whole

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
            args, kwargs = self.arguments(call.to(self.place(attempt)))
            budget = self.budget(draw, call, dtype, gradients and self.differentiable)
            request = {"do": "call", "target": callee.target, "args": args, "kwargs": kwargs}
            if budget.cotangents:
                cotangents = [transposed(each).to(self.place(attempt)) for each in budget.cotangents.values()]
                request |= {"do": "forward_backward", "cotangents": cotangents}
            if self.only_case in ("", case):
                asked.append((callee, request))
                expected.append((case, call, budget))
            if case in (self.only_case, self.last_case):
                break
        answers = attempt.ask_each(asked) if asked else iter(())
        for (case, call, budget), (callee, _) in zip(expected, asked, strict=True):
            with self.case_context(attempt, case, call):
                answer = next(answers)
            got = {"result": answer["value"]}
            if budget.cotangents:
                got |= {f"gradient of {name}": grad for name, grad in callee.renamed(answer["gradients"]).items()}
                inputs = tolerance.named_leaves(self.signature.in_order(call.inputs))
                leaves = [name for name, value in inputs.items() if is_floating(value)]
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
        with self.case_context(attempt, case, call), noting(dtype=bare(dtype)):
            budget = budget or self.budget(draw, call, dtype)
            given = self.result_leaves(got["result"], budget, self.place(attempt), case, call, dtype)
            got = got | given
            for name, expected in budget.exact.items():
                if expected is None:
                    continue
                value = got.get(name)
                if value is None:
                    fail(f"the result is differentiable: no {name} comes back", where=f"{case}: {name}")
                sentence = f"{name} matches the definition" if name in given else f"{name} is right"
                axes = self.axes.get(name.removeprefix("gradient of ").partition("[")[0], "out in")
                value = value.cpu() if isinstance(value, Tensor) else value
                inputs = tolerance.named_leaves(call.inputs) if name in given else {}
                try:
                    worst = budget.usage(name, value)
                    if worst is None:
                        allowed = budget.allowed(name)
                        if attempt.device == "cuda" and "scores" in case and name not in given:
                            allowed = allowed + FUSED * expected.abs().amax(-1, keepdim=True)
                        worst = match(value, expected, allowed, sentence, axes, inputs=inputs)
                except Wrong as wrong:
                    wrong.where, wrong.cotangents = f"{case}: {name}", budget.cotangents
                    wrong.failure.definition = name == "result"
                    attempt.error_ratio = max(attempt.error_ratio, wrong.worst)
                    raise
                attempt.error_ratio = max(attempt.error_ratio, worst)

    def result_leaves(
        self, result: Any, budget: Budget, device: str, case: str, call: Call, dtype: torch.dtype
    ) -> dict[str, Any]:
        """What a call gave, by name, each of its kind, its device and its dtype.

        Raises:
            Wrong: there is another number of results, or one is no tensor of the dtype that is asked for.
        """
        found = self.named(result, case)
        expected = {name: value for name, value in budget.exact.items() if not name.startswith("gradient of ")}
        if found.keys() != expected.keys():
            seen = f"got {', '.join(found)}, expected {', '.join(expected)}"
            fail("each result has as many parts as the input", seen, where=case)
        for name, value in expected.items():
            if value is None:
                if found[name] is not None:
                    fail(f"{name} is None", f"got a {type(found[name]).__name__}", where=case)
                continue
            if found[name] is None and name != "result":
                fail(f"{name} is a tensor", "got None", where=case)
            wanted = self.result_dtype(name, call, dtype) if is_floating(value) else value.dtype
            got = tensor(found[name], device)
            if got.dtype is not wanted:
                whose = "input" if any(map(is_floating, tolerance.named_leaves(call.inputs).values())) else "parameters"
                sentence = (
                    f"the result has the dtype of the {whose}" if name == "result" else f"{name} is {bare(wanted)}"
                )
                fail(sentence, f"got {bare(got.dtype)} for {bare(dtype)}", where=case)
        return found

    def named(self, result: Any, case: str = "") -> dict[str, Any]:
        """The results of a call by name, those within them too. Raises Wrong where there is another number of them."""
        if self.results and not (isinstance(result, (tuple, list)) and len(result) == len(self.results)):
            count = f"{len(result)} of them" if isinstance(result, (tuple, list)) else "one value"
            fail(f"the results are {', '.join(self.results)}, in a tuple", f"got {count}", where=case)
        return tolerance.named_results(result, self.results)

    @classmethod
    def in_order(cls, result: Any) -> Any:
        """The results of a call in the order that the oracle has them, where a contract leaves it open."""
        return result

    def result_dtype(self, name: str, call: Call, dtype: torch.dtype) -> torch.dtype:
        """The dtype of a floating result: that of the input."""
        return dtype

    def expected(self, call: Call) -> Tensor:
        """The oracle's result in float64, where there is one alone."""
        return self.expected_leaves(call)["result"]

    def expected_leaves(self, call: Call) -> dict[str, Any]:
        """The oracle's results in float64, by name."""
        mine, exact = type(self), call.cast(torch.float64)
        given = exact.init, exact.params, exact.inputs
        key = (mine.__module__, mine.__qualname__, *map(value_key, given))
        found = remembered(key, lambda: tolerance.evaluate(mine.oracle, *given, results=self.results))
        return {name: value.clone() if isinstance(value, Tensor) else value for name, value in found.items()}

    def budget(self, draw: Draw, call: Call, dtype: torch.dtype, gradients: bool = False) -> Budget:
        """What the oracle expects of this call, and how far an attempt may be from it."""

        def cotangents_of(found: dict[str, Any]) -> dict[str, Any]:
            # Bounded: a row without keys may be divided by the smallest normal number, and must not overflow.
            floating = {name: value for name, value in found.items() if is_floating(value)}
            return {name: draw.uniform(*value.shape, low=-1.0, high=1.0) for name, value in floating.items()}

        def compute() -> Budget:
            # Autograd may round parts of a gradient before it adds them up: only results are held to one rounding.
            once, pull = self.rounded_once and not gradients, cotangents_of if gradients else None
            named = self.results, self.constants, call.wide
            return Budget(mine.oracle, self.variants, *given, pull, dtype, draw.generator, once, *named)

        mine, given = type(self), (call.init, call.params, call.inputs)
        key = (mine.__module__, mine.__qualname__, dtype, gradients, call.wide, *map(value_key, given))
        return cached(key, compute, draw.generator)

    def ready(self, attempt: Attempt, call: Call, dtype: torch.dtype = torch.float32) -> Callee:
        """The callable under test, ready for calls in this dtype on the device of the grading."""
        callee: Callee = getattr(attempt, self.name)
        return replace(callee, target=[self.through, self.name]) if self.through else callee

    def place(self, attempt: Attempt) -> str:
        """The device that inputs and results are on."""
        return attempt.device

    def trains(self, call: Call) -> bool:
        """Whether the call is one of a module in training, where that differs from evaluation."""
        return False

    def arguments(self, call: Call) -> tuple[Args, Kwargs]:
        """Inputs by position, as the contract's signature takes them: what an attempt calls them is for one check."""
        return self.signature.call(call.inputs)

    def prepare_call(self, attempt: Attempt, call: Call) -> PreparedCall:
        """What to call, with its parameters loaded, and the arguments of a call, on the device of the grading."""
        call = call.to(self.place(attempt))
        return self.ready(attempt, call), *self.arguments(call)

    def run(self, attempt: Attempt, case: str, call: Call, dtype: torch.dtype = torch.float32) -> Tensor:
        """The result of one call without gradients, on the CPU."""
        with self.case_context(attempt, case, call):
            callee = self.ready(attempt, call, dtype)
            args, kwargs = self.arguments(call.to(self.place(attempt)))
            return tensor(callee.request(args, kwargs)["value"], self.place(attempt)).cpu()

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
        given = protocol.floating_in(self.signature.call(call.inputs))
        runs, scales = 0, [torch.ones(value.shape[-1:]) for value in given]
        lowest, highest = self.timed_scale

        def run() -> tuple[float, float]:
            nonlocal runs, scales
            runs += 1
            changes = []
            for _ in range(staged.calls):
                # A factor for each entry of the last axis: no result is a multiple of the one before.
                before, drawn = scales, [torch.rand(scale.shape, generator=draw.generator) for scale in scales]
                scales = [lowest + (highest - lowest) * each for each in drawn]
                changes.append([scale / old for scale, old in zip(scales, before, strict=True)])
            spent, wall, kept = staged.timed(changes)
            if check and runs == WARM_UPS + 1:
                fresh = {id(value): value * scale for value, scale in zip(given, scales, strict=True)}
                inputs = mapped(lambda v: fresh.get(id(v), v), call.inputs)
                got = self.named(staged.fetch(kept))
                leaves = {k: tensor(v, self.place(attempt)).cpu() for k, v in got.items() if v is not None}
                self.spot_check(call.with_inputs(**inputs), leaves)
            return spent, wall

        return run

    def spot_check(self, call: Call, got: dict[str, Tensor]) -> None:
        """A timed answer is a real one: within one part in a hundred of the oracle, row by row."""
        for name, expected in self.expected_leaves(call).items():
            if expected is None:
                continue
            allowed = None
            if is_floating(expected):
                finite = expected.abs().nan_to_num(posinf=0.0)
                allowed = 0.01 * finite.amax(-1, keepdim=True).clamp_min(1e-6).expand(expected.shape)
            sentence = "the answer of a timed call is right"
            match(got.get(name), expected, allowed, sentence, self.axes.get(name.partition("[")[0], ""))

    @contextmanager
    def case_context(self, attempt: Attempt, case: str, call: Call) -> Iterator[None]:
        """A context in which any fault also tells the failing case in words."""
        try:
            yield
        except Fault as fault:
            fault.failure.inputs.append(f"case `{case}`: {call.describe(self.axes, attempt.device)}")
            fault.failure.case = case
            args, kwargs = self.signature.call(call.inputs)
            built = self.signature.construction(call.init) if self.signature.init else None
            names = self.signature.inputs[: len(args)]
            fault.failing = FailingCall(self.name, built, call.params, args, kwargs, names, self.trains(call))
            fault.failing.in_numpy = self.in_numpy
            init = self.signature.init[: len(built[0])] if built else ()
            fault.failure.given = {*names, *kwargs, *init, *(built[1] if built else ())}
            if isinstance(fault, Wrong):
                fault.failing.expected = fault.expected
                fault.failing.tell(fault.where.rpartition(": ")[2], self.results, fault.cotangents)
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
