"""The house rules as checks. A grader subclasses `Contract` or `ModuleContract` and fills in what is its kata's own.

Each test's name is a sentence of the contract; its tier is its mark. What a subclass states:

- `name`, the callable; `cases`, small ones first; `more_shapes`, further shapes that house rule 1 asks for;
- `oracle(init, params, **inputs)`, dumber than the solution or someone else's, differentiable in float64;
- `variants`, at least three accepted evaluations of the same map, the least accurate accepted one among them;
- `axes`, the names of the axes of each input and of the `result`;
- `ban`, `growth`, `linear_in`, `timed` and `time_limit`, for what it may use and cost.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from dojo import rule
from dojo.expect import (
    NOTHING_BANNED,
    Ban,
    Call,
    Draw,
    Wrong,
    build,
    fail,
    match,
    operation_count,
    outline_holds,
    parameters_are,
    steady,
    tensor,
)
from dojo.judge.faults import Fault, Raised
from dojo.judge.proxy import Attempt, Callee, Laid, Module
from dojo.judge.race import Race, race
from dojo.recall import content, recall
from dojo.verdict import Label, Outcome, Section

core, robust, fast = pytest.mark.core, pytest.mark.robust, pytest.mark.fast
half_precisions = pytest.mark.parametrize("dtype", rule.HALF, ids=lambda d: str(d).removeprefix("torch."))

Maker = Callable[[Draw], Call]
WARM_UPS = 2


class Contract:
    """What the house rules ask of a function of tensors."""

    name: ClassVar[str]
    cases: ClassVar[dict[str, Maker]]
    more_shapes: ClassVar[dict[str, Maker]] = {}
    telling: ClassVar[tuple[str, ...] | None] = None  # the cases that dtype and layout are tried on; None for all
    variants: ClassVar[list[rule.Formula]]
    axes: ClassVar[dict[str, str]]
    positional: ClassVar[int] = 1  # how many inputs the contract's signature takes by position
    ban: ClassVar[Ban] = NOTHING_BANNED
    rounded_once: ClassVar[bool] = False  # half precision is held to float32 arithmetic and one rounding
    near_300: ClassVar[Maker | None] = None
    growth: ClassVar[dict[str, Callable[[Draw, int], Call]]]
    growth_sizes: ClassVar[tuple[int, int]] = (2, 14)
    linear_in: ClassVar[Callable[[Draw, int], Call] | None] = None
    timed: ClassVar[Maker]
    time_limit: ClassVar[float]

    oracle: ClassVar[rule.Formula]

    @core
    def test_values_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        for case, make in self.cases.items():
            self.verify(attempt, draw, case, make(draw))

    @core
    def test_gradients_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        for case, make in self.cases.items():
            self.verify(attempt, draw, case, make(draw), gradients=True)

    @core
    def test_uses_only_what_is_allowed(self, attempt: Attempt, draw: Draw) -> None:
        watched = list(self.ban.functions)
        telling = [make(draw) for make in self.telling_cases().values()]
        inits = {repr(made.init): made.init for made in telling if made.init or made.params}
        built = [(getattr(attempt, self.name), (), init) for init in inits.values()]
        laid = [self.at_hand(attempt, made) for made in telling]
        self.ban.judge(attempt.observed([*built, *laid], watched), attempt.parts)
        if self.ban == NOTHING_BANNED:
            return
        laid = [self.at_hand(attempt, make(draw)) for make in (self.cases | self.more_shapes).values()]
        self.ban.judge(attempt.observed(laid, watched, counted=False), attempt.parts)
        laid = [self.at_hand(attempt, made) for made in telling]
        laid = [(callee.eval(), args, kwargs) for callee, args, kwargs in laid if isinstance(callee, Module)]
        if laid:
            self.ban.judge(attempt.observed(laid, watched, counted=False), attempt.parts)
        first = next(iter(self.cases.values()))(draw)
        cast = {dtype: first.cast(dtype) for dtype in (torch.float32, torch.float64, *rule.HALF)}
        laid = [
            (self.ready(attempt, call, dtype), *self.arguments(self.on_device(attempt, call)))
            for dtype, call in cast.items()
        ]
        with suppress(Raised):  # what fails with gradients or in another dtype is for other checks to tell
            self.ban.judge(attempt.observed(laid, watched, counted=False, gradients=True), attempt.parts)

    @robust
    def test_any_leading_dimensions_and_length_one(self, attempt: Attempt, draw: Draw) -> None:
        for case, make in self.more_shapes.items():
            self.verify(attempt, draw, case, make(draw), gradients=True)

    @robust
    def test_float64_is_at_least_as_accurate_as_float32(self, attempt: Attempt, draw: Draw) -> None:
        for case, make in self.telling_cases().items():
            self.verify(attempt, draw, case, make(draw), torch.float64, gradients=True)

    @robust
    @half_precisions
    def test_half_precision_is_computed_in_float32(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        for case, make in self.telling_cases().items():
            if self.rounded_once:  # then the result is held to less than it is beside its gradients
                self.verify(attempt, draw, case, make(draw), dtype)
            self.verify(attempt, draw, case, make(draw), dtype, gradients=True)

    @robust
    def test_float16_values_near_300_do_not_overflow(self, attempt: Attempt, draw: Draw) -> None:
        if self.near_300 is not None:
            self.verify(attempt, draw, "near_300", type(self).near_300(draw), torch.float16)

    @robust
    def test_inputs_and_global_state_are_left_as_they_were(self, attempt: Attempt, draw: Draw) -> None:
        tried = [(case, make, torch.float32) for case, make in self.cases.items()]
        tried += [(*self.telling_case(), dtype) for dtype in (torch.float64, *rule.HALF)]
        for case, make, dtype in tried:
            call = self.on_device(attempt, make(draw).cast(dtype))
            args, kwargs = self.arguments(call)
            reply = self.ready(attempt, call, dtype).request(args, kwargs, watch=True)
            sent = [(k, v) for k, v in call.inputs.items() if isinstance(v, Tensor)]
            for (name, value), after in zip(sent, reply["inputs"], strict=True):
                if value.shape != after.shape or not ((value == after) | (value.isnan() & after.isnan())).all():
                    told = "" if dtype is torch.float32 else f" in {_bare(dtype)}"
                    fail("inputs are not modified", f"{name} was changed in the case `{case}`{told}")
            if reply["changed"]:
                fail("a call leaves global state alone", f"changed: {', '.join(reply['changed'])}")

    @robust
    def test_any_memory_layout_gives_the_same(self, attempt: Attempt, draw: Draw) -> None:
        for number, (case, make) in enumerate(self.telling_cases().items()):
            call = make(draw)
            tensors = {k: v for k, v in call.inputs.items() if isinstance(v, Tensor)}
            relaid = {kind: {k: relay(v) for k, v in tensors.items()} for kind, relay in LAYOUTS.items()}
            relaid |= {f"{k} expanded": {k: _expanded(v)} for k, v in tensors.items()}
            for kind, inputs in relaid.items():
                told = f"{case}, {kind}"
                self.verify(attempt, draw, told, call.with_inputs(**inputs), gradients=number == 0)

    @robust
    def test_each_call_stands_alone(self, attempt: Attempt, draw: Draw) -> None:
        call = next(iter(self.cases.values()))(draw)
        callee = self.ready(attempt, self.on_device(attempt, call))
        args, kwargs = self.arguments(self.on_device(attempt, call))
        prepared = callee.prepare(*args, **kwargs)
        # The same objects, then the same sum in another order, then one element changed: no cheap key tells them apart.
        calls = [call, call.with_inputs(**_changed(call, _reversed)), call.with_inputs(**_changed(call, _nudged))]
        kept = []
        for each in calls:
            args, kwargs = self.arguments(self.on_device(attempt, each))
            prepared.refill(*args, **kwargs)
            kept.append(prepared.go())
        for number, (each, result) in enumerate(zip(calls, kept, strict=True), 1):
            told = f"call {number} of {len(calls)} with the same tensors, refilled in between"
            self.compare(attempt, draw, told, each, {"result": prepared.fetch(result)}, torch.float32, None)
        prepared.spoil(prepared.go())
        got = {"result": prepared.fetch(prepared.go())}
        told = "the same call again, after its first result was overwritten"
        self.compare(attempt, draw, told, each, got, torch.float32, None)

    @fast
    def test_operation_count_does_not_grow(self, attempt: Attempt, draw: Draw) -> None:
        for axis, make in self.growth.items():
            counts = []
            for size in self.growth_sizes:
                callee, args, kwargs = self.at_hand(attempt, make(draw, size))
                counts.append(operation_count(callee.operations(*args, **kwargs)))
            steady(axis, self.growth_sizes, counts)

    @fast
    def test_memory_grows_no_faster_than_the_input(self, attempt: Attempt, draw: Draw) -> None:
        if self.linear_in is None:
            return
        small, factor = 64, 8
        largest = []
        for size in (small, factor * small):
            callee, args, kwargs = self.at_hand(attempt, type(self).linear_in(draw, size))
            bytes_of = callee.largest(*args, **kwargs)
            if not bytes_of:
                fail("tensors are made in the thread that is called", "no operation was seen there")
            largest.append(max(bytes_of.items(), key=lambda item: item[1]))
        (_, before), (name, after) = largest
        if after > 2 * factor * before:
            sentence = "no tensor grows faster than the input: nothing the size of seq × seq is needed"
            seen = f"{name} made {before} bytes at seq {small} and {after} bytes at seq {factor * small}"
            raise Fault(Outcome.SLOW, Section(Label.CONTRACT, sentence), Section(Label.FACTS, seen))

    @fast
    def test_time_stays_near_the_reference(self, attempt: Attempt, reference: Attempt, draw: Draw) -> None:
        if self.ban != NOTHING_BANNED:  # not even for inputs as large as these
            laid = [self.at_hand(attempt, type(self).timed(draw))]
            self.ban.judge(attempt.observed(laid, list(self.ban.functions), counted=False), attempt.parts)
        decided(self.race(attempt, reference, draw), self.time_limit)

    def telling_cases(self) -> dict[str, Maker]:
        """The cases that dtype and layout are tried on."""
        return {k: v for k, v in self.cases.items() if self.telling is None or k in self.telling}

    def telling_case(self) -> tuple[str, Maker]:
        """The first of them."""
        return next(iter(self.telling_cases().items()))

    def race(self, attempt: Attempt, reference: Attempt, draw: Draw) -> Race:
        """Time the attempt against the reference on changed inputs, outputs spot-checked."""
        call = type(self).timed(draw)
        runners = [self.runner(attempt, call, draw, check=True), self.runner(reference, call, draw, check=False)]
        for run in runners:
            for _ in range(WARM_UPS):
                run()
        return race(*runners, self.time_limit, draw.random())

    def runner(self, attempt: Attempt, call: Call, draw: Draw, check: bool) -> Callable[[], tuple[float, float]]:
        """A function that times one call on new content, and once looks at the answer if it is to check it."""
        callee, args, kwargs = self.at_hand(attempt, call)
        prepared = callee.prepare(*args, **kwargs)
        runs, scale = 0, 1.0

        def run() -> tuple[float, float]:
            nonlocal runs, scale
            runs += 1
            before, scale = scale, 0.5 + torch.rand((), generator=draw.generator).item()
            prepared.rescale(scale / before)
            cpu, wall, kept = prepared.timed()
            if check and runs == WARM_UPS + 1:
                fresh = {k: v * scale if _floating(v) else v for k, v in call.inputs.items()}
                got = tensor(prepared.fetch(kept), attempt.device)
                self.spot_check(call.with_inputs(**fresh), got.cpu())
            return (wall, wall) if attempt.device == "cuda" else (cpu, wall)

        return run

    def spot_check(self, call: Call, got: Tensor) -> None:
        """A timed answer is a real one: within one part in a hundred of the oracle, row by row."""
        expected = self.expected(call)
        scale = expected.abs().amax(-1, keepdim=True).clamp_min(1e-6)
        sentence = "the answer of a timed call is right"
        match(got, expected, 0.01 * scale.expand(expected.shape), sentence, self.axes["result"])

    def ready(self, attempt: Attempt, call: Call, dtype: torch.dtype = torch.float32) -> Callee:
        """The callable with its parameters loaded, in this dtype, on the device of the grading."""
        callee = build(attempt, self.name, call)
        if isinstance(callee, Module):
            if dtype is not torch.float32 or attempt.device != "cpu":
                callee.to(device=attempt.device, dtype=dtype)
            if call.params:
                shapes = {k: tuple(v.shape) for k, v in call.params.items()}
                callee.load_state_dict(self.on_device(attempt, call).params, partial(outline_holds, shapes))
        return callee

    def arguments(self, call: Call) -> tuple[tuple, dict[str, Any]]:
        """Inputs as the contract's signature takes them: required ones by position, the others by keyword."""
        items = list(call.inputs.items())
        return tuple(v for _, v in items[: self.positional]), dict(items[self.positional :])

    def on_device(self, attempt: Attempt, call: Call) -> Call:
        """The call with its tensors on the device of the grading."""
        moved = {k: v.to(attempt.device) if isinstance(v, Tensor) else v for k, v in call.inputs.items()}
        return replace(call, inputs=moved, params={k: v.to(attempt.device) for k, v in call.params.items()})

    def at_hand(self, attempt: Attempt, call: Call) -> Laid:
        """What to call, with its parameters loaded, and the arguments of a call, on the device of the grading."""
        call = self.on_device(attempt, call)
        return self.ready(attempt, call), *self.arguments(call)

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
        call = call.cast(dtype)
        callee = self.ready(attempt, call, dtype)
        callee = callee if training else callee.eval()
        here = self.on_device(attempt, call)
        leaves = {k: _leaf(v, gradients) for k, v in here.inputs.items()}
        args, kwargs = self.arguments(here.with_inputs(**leaves))
        with torch.set_grad_enabled(gradients), self.told(attempt, case, call):
            result = tensor(callee(*args, **kwargs), attempt.device)
            got = {"result": result}
        cotangent = None
        if gradients:
            # Bounded: a row without keys may be divided by the smallest normal number, and must not overflow.
            cotangent = _transposed(draw.uniform(*result.shape, low=-1.0, high=1.0).to(result.dtype))
            sources = {k: v for k, v in (leaves | callee.parameters()).items() if _floating(v)}
            with self.told(attempt, case, call):
                grads = rule.pull_back(result, cotangent, list(sources.values()))
            got |= {f"gradient of {k}": g for k, g in zip(sources, grads, strict=True)}
        self.compare(attempt, draw, case, call, got, dtype, cotangent)

    def compare(
        self,
        attempt: Attempt,
        draw: Draw,
        case: str,
        call: Call,
        got: dict[str, Any],
        dtype: torch.dtype,
        cotangent: Tensor | None,
    ) -> None:
        """Hold results and gradients against the oracle under the error rule."""
        with self.told(attempt, case, call):
            result = tensor(got["result"], attempt.device)
            if result.dtype is not dtype:
                seen = Section(Label.FACTS, f"got {_bare(result.dtype)} for {_bare(dtype)}")
                whose = "input" if any(map(_floating, call.inputs.values())) else "parameters"
                raise Wrong(f"the result has the dtype of the {whose}", seen, where=case)
            for name, (expected, allowed) in self.budget(draw, call, dtype, cotangent).items():
                value = got[name]
                if value is None:
                    raise Wrong(f"the result is differentiable: no {name} comes back", where=f"{case}: {name}")
                sentence = f"{name} matches the definition" if name == "result" else f"{name} is right"
                axes = self.axes.get(name.removeprefix("gradient of "), "out in")
                value = value.cpu() if isinstance(value, Tensor) else value
                try:
                    used = match(value, expected, allowed, sentence, axes)
                except Wrong as wrong:
                    wrong.where = f"{case}: {name}"
                    attempt.used = max(attempt.used, wrong.excess)
                    raise
                attempt.used = max(attempt.used, used)

    def expected(self, call: Call) -> Tensor:
        """The oracle's result in float64."""
        exact = call.cast(torch.float64)
        return rule.evaluate(type(self).oracle, exact.init, exact.params, exact.inputs, None)["result"]

    def budget(
        self, draw: Draw, call: Call, dtype: torch.dtype, cotangent: Tensor | None
    ) -> dict[str, tuple[Tensor, Tensor]]:
        """What the oracle expects of this call, and how far an attempt may be from it."""
        mine, given = type(self), (call.init, call.params, call.inputs, cotangent)
        return recall(
            (mine.__module__, mine.__qualname__, dtype, *map(content, given)),
            # Autograd may round parts of a gradient before it adds them up: only results are held to one rounding.
            lambda: rule.budget(
                mine.oracle, self.variants, *given, dtype, draw.generator, self.rounded_once and cotangent is None
            ),
            draw.generator,
        )

    def setting(self, attempt: Attempt, case: str, call: Call) -> Section:
        """The failing case in words."""
        return Section(Label.INPUT, f"case `{case}`: {call.describe(self.axes, attempt.device)}")

    def told(self, attempt: Attempt, case: str, call: Call) -> _Told:
        """A context in which any fault also tells the case."""
        return _Told(partial(self.setting, attempt, case, call))


class ModuleContract(Contract):
    """What the house rules ask of a module, besides what they ask of any function."""

    delicate: ClassVar[Maker | None] = None  # a call whose positions or constants half precision cannot hold

    @core
    def test_holds_exactly_the_parameters_of_the_contract(self, attempt: Attempt, draw: Draw) -> None:
        for make in self.cases.values():
            call = make(draw)
            parameters_are(build(attempt, self.name, call), {k: tuple(v.shape) for k, v in call.params.items()})

    @robust
    def test_state_dict_holds_the_parameters_alone(self, attempt: Attempt, draw: Draw) -> None:
        call = next(iter(self.cases.values()))(draw)
        module, args, kwargs = self.at_hand(attempt, call)
        for told in ("as built", "after a call"):
            keys = set(module.describe()["state"])
            extra, missing = sorted(keys - set(call.params)), sorted(set(call.params) - keys)
            if extra or missing:
                seen = f"{told}: extra: {extra}, missing: {missing}"
                fail("state_dict() holds the parameters and nothing else", seen)
            module.request(args, kwargs)

    @robust
    def test_training_and_evaluation_give_the_same(self, attempt: Attempt, draw: Draw) -> None:
        case, make = self.telling_case()
        self.verify(attempt, draw, f"{case}, after module.eval()", make(draw), gradients=True, training=False)

    @robust
    def test_a_module_serves_calls_of_any_shape_in_any_order(self, attempt: Attempt, draw: Draw) -> None:
        first, *others = (make(draw) for make in (self.cases | self.more_shapes).values())
        module = self.ready(attempt, first).eval()
        alike = [replace(first, inputs=other.inputs) for other in others if other.init == first.init]
        for number, call in enumerate([first, *alike, first]):
            args, kwargs = self.arguments(self.on_device(attempt, call))
            told = f"call {number + 1} of one module"
            with self.told(attempt, told, call):
                got = {"result": module.request(args, kwargs)["value"]}
            self.compare(attempt, draw, told, call, got, torch.float32, None)

    @robust
    def test_other_weights_give_another_result(self, attempt: Attempt, draw: Draw) -> None:
        first, second = (next(iter(self.cases.values()))(draw) for _ in range(2))
        if not first.params:
            return
        module, args, kwargs = self.at_hand(attempt, first)
        module.eval().request(args, kwargs)
        module.load_state_dict(self.on_device(attempt, second).params)
        told = "other weights loaded after a call without gradients"
        each = replace(first, params=second.params)
        with self.told(attempt, told, each):
            got = {"result": module.request(args, kwargs)["value"]}
        self.compare(attempt, draw, told, each, got, torch.float32, None)

    @robust
    def test_tables_lose_nothing_when_the_module_is_cast(self, attempt: Attempt, draw: Draw) -> None:
        half = torch.bfloat16
        delicate = type(self).delicate
        tried = [self.telling_case(), *([] if delicate is None else [("what_half_precision_cannot_hold", delicate)])]
        for case, make in tried:
            call = make(draw)
            low = call.cast(half)
            here, low_here = self.on_device(attempt, call), self.on_device(attempt, low)
            args, kwargs = self.arguments(here)
            low_args, low_kwargs = self.arguments(low_here)
            for told, built in (("after module.to(bfloat16)", {}), ("built with dtype=bfloat16", {"dtype": half})):
                module = build(attempt, self.name, call, **built).to(device=attempt.device, dtype=half).eval()
                with torch.no_grad(), self.told(attempt, f"{case}, {told}", low):
                    got = {"result": module.load_state_dict(low_here.params)(*low_args, **low_kwargs)}
                self.compare(attempt, draw, f"{case}, {told}", low, got, half, None)
                told = f"{case}, {told}, a call in it and module.to(float32)"
                with torch.no_grad(), self.told(attempt, told, call):
                    got = {"result": module.to(torch.float32).load_state_dict(here.params)(*args, **kwargs)}
                self.compare(attempt, draw, told, call, got, torch.float32, None)

    @robust
    def test_construction_leaves_global_state_alone(self, attempt: Attempt, draw: Draw) -> None:
        call = next(iter(self.cases.values()))(draw)
        with torch.no_grad():
            changed = set(getattr(attempt, self.name).request((), call.init, watch=True)["changed"])
        changed -= {"torch's random generator"}  # weights are drawn from it, which sets no seed
        if changed:
            fail("building a module leaves global state alone", f"changed: {', '.join(sorted(changed))}")

    @robust
    def test_takes_device_and_dtype(self, attempt: Attempt, draw: Draw) -> None:
        call = next(iter(self.cases.values()))(draw)
        for dtype in (torch.float64, torch.bfloat16):
            module = build(attempt, self.name, call, device=torch.device(attempt.device), dtype=dtype)
            for name, parameter in module.describe()["parameters"].items():
                if parameter.dtype is not dtype:
                    seen = f"{name} is {_bare(parameter.dtype)} with dtype={_bare(dtype)}"
                    fail("parameters have the dtype that the constructor is given", seen)
            module.load_state_dict({k: v.to(dtype) for k, v in call.params.items()} if attempt.device == "cpu" else {})
            here = self.on_device(attempt, call.cast(dtype))
            args, kwargs = self.arguments(here)
            with torch.no_grad(), self.told(attempt, f"built with dtype={_bare(dtype)}", here):
                got = {"result": module(*args, **kwargs)}
            if attempt.device == "cpu":
                told = f"built with dtype={_bare(dtype)}"
                self.compare(attempt, draw, told, call.cast(dtype), got, dtype, None)
        try:
            parameters = build(attempt, self.name, call, device=torch.device("meta")).describe()["parameters"]
        except Raised as raised:
            if raised.kind == "TypeError":
                raise
            return  # what cannot be computed on a device without memory is no fault of the module
        for name, parameter in parameters.items():
            if not parameter.is_meta:
                fail("parameters live on the device that the constructor is given", f"{name} is on {parameter.device}")

    @robust
    def test_serves_inputs_on_the_device_it_was_moved_to(self, attempt: Attempt, draw: Draw) -> None:
        call = next(iter(self.cases.values()))(draw)
        args, kwargs = self.arguments(call)
        mixed = self.ready(attempt, call).elsewhere(*args, **kwargs)["mixed"]
        if mixed:
            fail("tables follow the module, or the input, to another device", f"{mixed}, after module.to(device)")


class TabledContract(ModuleContract):
    """What is asked besides of a module that makes tables and draws no weights."""

    @fast
    def test_construction_takes_no_more_operations_for_more(self, attempt: Attempt, draw: Draw) -> None:
        for axis, make in self.growth.items():
            built = [make(draw, size).init for size in self.growth_sizes]
            if built[0] != built[1]:
                target = getattr(attempt, self.name)
                counts = [sum(target.operations(**init)["profiled"].values()) for init in built]
                steady(axis, self.growth_sizes, counts, " at construction")


class NormedContract(ModuleContract):
    """What is asked besides of a module with norms among its parts."""

    @core
    def test_norms_start_with_weights_of_one_and_biases_of_zero(self, attempt: Attempt, draw: Draw) -> None:
        call = next(iter(self.cases.values()))(draw)
        for name, value in build(attempt, self.name, call).describe()["parameters"].items():
            start = {"weight": 1.0, "bias": 0.0}.get(name.rpartition(".")[2]) if "norm" in name else None
            if start is not None and not (value == start).all():
                some = value.flatten()[:4].tolist()
                fail(f"a norm starts as the plain norm, its weights 1 and its biases 0: {name}", f"got {some} …")


class _Told:
    """Adds the failing case to any fault that passes through."""

    def __init__(self, setting: Callable[[], Section]) -> None:
        self.setting = setting

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Fault):
            error.sections.append(self.setting())


def stays_near(callee: Callee, reference: Callee, args: tuple, limit: float, draw: Draw) -> None:
    """A function of plain values takes at most `limit` times as long as the reference."""

    def timed(each: Callee) -> Callable[[], tuple[float, float]]:
        prepared = each.prepare(*args)

        def run() -> tuple[float, float]:
            cpu, wall, _ = prepared.timed()
            return (wall, wall) if each.attempt.device == "cuda" else (cpu, wall)

        run()
        return run

    decided(race(timed(callee), timed(reference), limit, draw.random()), limit)


def decided(result: Race, limit: float) -> None:
    """End the check if the race was lost, or could not be decided."""
    told = f"{result.ratio:.1f} × the reference's time (median of {result.pairs} pairs), limit {limit} ×"
    if result.slower is None:
        raise Fault(Outcome.UNDECIDED, Section(Label.CONTRACT, f"too close to call: {told}"))
    if result.slower:
        sentence = f"takes at most {limit} × the time of the reference"
        raise Fault(Outcome.SLOW, Section(Label.CONTRACT, sentence), Section(Label.FACTS, told))


def _transposed(t: Tensor) -> Tensor:
    """The same values with the last axis no longer the dense one."""
    if t.dim() < 2:
        return torch.stack([t, t], -1)[..., 0]
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)


def _expanded(t: Tensor) -> Tensor:
    """The first entry of the first axis, repeated without memory."""
    return t[:1].expand(t.shape) if t.dim() > 1 else t


def _sliced(t: Tensor) -> Tensor:
    """A part of a wider tensor, whose rows are an odd number of elements apart."""
    if not t.dim():
        return t
    width = t.shape[-1]
    wide = t.new_zeros(*t.shape[:-1], width + 1 + width % 2)
    wide[..., :width] = t
    return wide[..., :width]


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed in memory": _transposed,
    "a part of a wider tensor": _sliced,
}


def _floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _leaf(value: Any, grad: bool) -> Any:
    return value.detach().requires_grad_() if grad and _floating(value) else value  # a clone would lose its layout


def _changed(call: Call, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """The floating inputs with other content; where there are none, the integer ones."""
    tensors = {k: v for k, v in call.inputs.items() if isinstance(v, Tensor)}
    floats = {k: v for k, v in tensors.items() if _floating(v)}
    return {k: change(v) for k, v in (floats or tensors).items()}


def _reversed(value: Tensor) -> Tensor:
    return value.flatten().flip(0).reshape(value.shape)


def _nudged(value: Tensor) -> Tensor:
    changed = _reversed(value)
    if not _floating(value):
        return changed.flatten().roll(1).reshape(value.shape)
    changed.view(-1)[-1] += 1
    return changed


def _bare(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
