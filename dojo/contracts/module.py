"""The house rules of a module: its parameters, its tables, its state, and what its constructor takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from dojo.content import catalog
from dojo.contracts.checks.assertions import fail, noting
from dojo.contracts.checks.inputs import Call, Draw
from dojo.contracts.checks.operations import assert_constant_op_count
from dojo.contracts.checks.parameters import fits, parameters_are, same_shapes
from dojo.contracts.function import Contract
from dojo.contracts.harness import bare, core, fast, robust
from dojo.judge.proxy import Attempt, Module
from dojo.verdict.failures import Raised


class ModuleContract(Contract):
    """What the house rules ask of a module, besides what they ask of any function."""

    needs: ClassVar[dict[str, str]] = Contract.needs | {
        "test_other_weights_give_another_result": "has_parameters",
    }
    has_parameters: ClassVar[bool] = False
    scales: ClassVar[dict[str, float]] = {}  # of parameters in the default call, as `params` takes them
    buffers: ClassVar[tuple[str, ...]] = ()  # what of `params` the state dict holds as buffers: see `trains`

    @classmethod
    def complete(cls) -> None:
        super().complete()
        cls.constants = (*cls.constants, *cls.buffers)
        cls.has_parameters = bool(next(iter(cls.cases.values()))(Draw(0)).params)

    @classmethod
    def constructed(cls, d: Draw, made: Call, sizes: dict[str, int], more: dict[str, Any]) -> Call:
        """The call of a module built with these sizes; other words are arguments of it, or scales of parameters."""
        inputs = {name: more.pop(name) for name in cls.signature.inputs if name in more}
        init = {name: (sizes | more)[name] for name in cls.signature.init if name in sizes | more}
        scales = {name: scale for name, scale in more.items() if name not in init}
        return replace(made.with_inputs(**inputs), init=init, params=cls.params(d, init, **cls.scales | scales))

    @classmethod
    def named_sizes(cls) -> list[str]:
        required = [name for name in cls.signature.init if name not in cls.signature.init_defaults]
        return list(dict.fromkeys([*super().named_sizes(), *required]))

    @classmethod
    def params(cls, d: Draw, init: dict[str, Any], **scales: float) -> dict[str, Tensor]:
        """Random parameters, of the names and shapes that the reference has with these constructor arguments.

        A matrix has the standard deviation 1/√in times what `scales` says for its name without dots (`w1`, `q_proj`),
        a table of embeddings 1, a bias 0.5; the weights of a norm are uniform from -2 to 2.
        """
        found = {}
        for name, shape in _reference_shapes(cls.master, cls.name, tuple(init.items())):
            *_, part, last = ["", *name.split(".")]
            scale = scales.get(part, scales.get(last, 1.0))
            if last == "bias":
                found[name] = d.normal(*shape, scale=0.5 * scale)
            elif len(shape) == 1:
                found[name] = d.uniform(*shape, low=-2, high=2)
            else:
                found[name] = d.normal(*shape, scale=scale * (1.0 if "embedding" in part else shape[-1] ** -0.5))
        return found

    def ready(self, attempt: Attempt, call: Call, dtype: torch.dtype = torch.float32) -> Module:
        """The module with its parameters loaded, in this dtype, on the device of the grading.

        One without parameters is left in the dtype of its tables: a table that was cast is not graded.
        """
        module = self.build(attempt, call)
        dtype = dtype if call.params else torch.float32
        if dtype is not torch.float32 or attempt.device != "cpu":
            module.to(device=attempt.device, dtype=dtype)
        if call.params:
            module.load_state_dict(call.to(attempt.device).params, fits(call.params, self.constants, self.buffers))
        return module

    def build(self, attempt: Attempt, call: Call, **keywords: Any) -> Module:
        """The module under test, built with the call's constructor arguments; its parameters go by our names."""
        args, kwargs = self.signature.construction(call.init)
        module = getattr(attempt, self.name).build(*args, **kwargs, **keywords)
        module.names = self.names(attempt, call)
        return module.train(self.trains(call)) if self.buffers else module

    def trains(self, call: Call) -> bool:
        """A call that names no buffers is one in training, which starts from those of a new module."""
        return bool(self.buffers) and not {*self.buffers} & {*call.params}

    def names(self, attempt: Attempt, call: Call) -> dict[str, str]:
        """What the attempt calls the parameters that the contract calls otherwise, where their shapes tell.

        That they have other names is for one check to say; the others judge what is done with them.
        """
        key = self.name, repr(call.init)
        if key not in attempt.parameter_names:
            args, kwargs = self.signature.construction(call.init)
            found = getattr(attempt, self.name).build(*args, **kwargs).outline()["shapes"]
            wanted = {k: tuple(v.shape) for k, v in call.params.items() if k not in self.buffers}
            attempt.parameter_names[key] = same_shapes(wanted, found)
        return attempt.parameter_names[key]

    def held(self, module: Module) -> dict[str, Tensor]:
        """The parameters of a module, and the buffers that the contract names."""
        described = module.describe()
        buffers = {name: value for name, value in described["buffers"].items() if name in self.buffers}
        return buffers | described["parameters"]

    def fullest_call(self, draw: Draw) -> Call:
        """The case with the most constructor arguments."""
        return max((make(draw) for make in self.cases.values()), key=lambda call: len(call.init))

    @core
    def test_holds_exactly_the_parameters_of_the_contract(self, attempt: Attempt, draw: Draw) -> None:
        for make in self.cases.values():
            call = make(draw)
            args, kwargs = self.signature.construction(call.init)
            module = getattr(attempt, self.name).build(*args, **kwargs)
            shapes = {k: tuple(v.shape) for k, v in call.params.items()}
            parameters_are(module, shapes, self.constants, self.buffers)

    @core
    def test_training_and_evaluation_give_the_same(self, attempt: Attempt, draw: Draw) -> None:
        """The model that is evaluated is not the one that was trained."""
        case, make = self.representative_case()
        self.verify(attempt, draw, f"{case}, after module.eval()", make(draw), gradients=True, training=False)

    @core
    def test_constructor_takes_its_arguments_by_name(self, attempt: Attempt, draw: Draw) -> None:
        made = self.fullest_call(draw)
        # what is wrong by position too has nothing to do with names
        self.verify(attempt, draw, "arguments by position, after module.eval()", made, training=False)
        label = f"constructor arguments by name: {', '.join(made.init)}"
        with self.case_context(attempt, label, made):
            module = getattr(attempt, self.name).build(**made.init)
            module.names = self.names(attempt, made)
            args, kwargs = self.arguments(made.to(attempt.device))
            module.to(attempt.device).load_state_dict(made.to(attempt.device).params)
            got = {"result": module.eval().request(args, kwargs)["value"]}
        self.compare(attempt, draw, label, made, got)

    @robust
    def test_state_dict_holds_the_parameters_alone(self, attempt: Attempt, draw: Draw) -> None:
        """A checkpoint does not load elsewhere: keys are missing or unexpected."""
        call = next(iter(self.cases.values()))(draw)
        module = self.ready(attempt, call)
        args, kwargs = self.arguments(call.to(attempt.device))
        for label in ("as built", "after a call"):
            keys = set(module.describe()["state"])
            extra, missing = sorted(keys - set(call.params)), sorted(set(call.params) - keys)
            if extra or missing:
                seen = f"{label}: extra: {extra}, missing: {missing}"
                fail("state_dict() holds the parameters and nothing else", seen)
            module.request(args, kwargs)

    @robust
    def test_a_module_serves_calls_of_any_shape_in_any_order(self, attempt: Attempt, draw: Draw) -> None:
        """The last batch of an epoch is smaller, and generation starts with a long prompt and goes on by single
        tokens.
        """
        every = self.cases | self.more_shapes | self.hard_cases | self.dead_rows
        first, *others = (make(draw) for make in every.values())
        module = self.ready(attempt, first).eval()
        alike = [replace(first, inputs=other.inputs) for other in others if other.init == first.init]
        calls = [first, *alike, first]
        asked = []
        for call in calls:
            args, kwargs = self.arguments(call.to(attempt.device))
            asked.append((module, {"do": "call", "target": module.target, "args": args, "kwargs": kwargs}))
        answers = attempt.ask_each(asked)
        for number, call in enumerate(calls, 1):
            label = f"call {number} of one module"
            with self.case_context(attempt, label, call):
                got = {"result": next(answers)["value"]}
            self.compare(attempt, draw, label, call, got)

    @robust
    def test_other_weights_give_another_result(self, attempt: Attempt, draw: Draw) -> None:
        """After an optimiser's step, or a checkpoint, the module goes on with its old weights."""
        first, second = (next(iter(self.cases.values()))(draw) for _ in range(2))
        module = self.ready(attempt, first)
        args, kwargs = self.arguments(first.to(attempt.device))
        module.eval().request(args, kwargs)
        module.load_state_dict(second.to(attempt.device).params)
        label = "other weights loaded after a call without gradients"
        each = replace(first, params=second.params)
        with self.case_context(attempt, label, each):
            got = {"result": module.request(args, kwargs)["value"]}
        self.compare(attempt, draw, label, each, got)

    @robust
    def test_construction_leaves_global_state_alone(self, attempt: Attempt, draw: Draw) -> None:
        """Building a model changes what the program does elsewhere, such as its default dtype."""
        call = next(iter(self.cases.values()))(draw)
        with torch.no_grad():
            built = getattr(attempt, self.name).request(*self.signature.construction(call.init), watch=True)
            changed = set(built["changed"])
        changed -= {"torch's random generator"}  # weights are drawn from it, which sets no seed
        if changed:
            fail("building a module leaves global state alone", f"changed: {', '.join(sorted(changed))}")

    @robust
    def test_takes_device_and_dtype(self, attempt: Attempt, draw: Draw) -> None:
        """Large models are built on their device, in their dtype, or on `meta`: built elsewhere first, they may not
        fit.
        """
        call = next(iter(self.cases.values()))(draw)
        for dtype in (torch.float64, torch.bfloat16):
            module = self.build(attempt, call, device=torch.device(attempt.device), dtype=dtype)
            for name, parameter in self.held(module).items():
                if parameter.dtype is not dtype:
                    seen = f"{name} is {bare(parameter.dtype)} with dtype={bare(dtype)}"
                    fail("parameters have the dtype that the constructor is given", seen)
            module.load_state_dict({k: v.to(dtype) for k, v in call.params.items()} if attempt.device == "cpu" else {})
            here = call.cast(dtype).to(attempt.device)
            args, kwargs = self.arguments(here)
            label = f"built with dtype={bare(dtype)}"
            with self.case_context(attempt, label, here):
                got = {"result": module.request(args, kwargs)["value"]}
            if attempt.device == "cpu":
                self.compare(attempt, draw, label, call.cast(dtype), got, dtype)
        try:
            parameters = self.held(self.build(attempt, call, device=torch.device("meta")))
        except Raised as raised:
            if raised.kind == "TypeError":
                raise
            return  # what cannot be computed on a device without memory is no fault of the module
        for name, parameter in parameters.items():
            if not parameter.is_meta:
                fail("parameters live on the device that the constructor is given", f"{name} is on {parameter.device}")

    @robust
    def test_serves_inputs_on_the_device_it_was_moved_to(self, attempt: Attempt, draw: Draw) -> None:
        """On a GPU it fails with tensors on two devices, although every test on the CPU passed."""
        call = next(iter(self.cases.values()))(draw)
        args, kwargs = self.arguments(call)
        reply = self.ready(attempt, call).fake_device(*args, **kwargs)
        if reply["mixed"] and reply["where"]:
            sentence = "tables follow the module, or the input, to another device"
            with noting(lines=reply["where"]["lines"], line=reply["where"]["line"]):
                fail(sentence, f"{reply['mixed']}, after module.to(device)")


class PrecomputedTablesContract(ModuleContract):
    """What is asked besides of a module that makes tables and draws no weights."""

    @fast
    def test_construction_takes_no_more_operations_for_more(self, attempt: Attempt, draw: Draw) -> None:
        for axis, make in self.growth.items():

            def count(size: int, make: Callable[[Draw, int], Call] = make) -> int:
                args, kwargs = self.signature.construction(make(draw, size).init)
                return sum(getattr(attempt, self.name).operations(*args, **kwargs)["profiled"].values())

            small, large = (make(draw, size).init for size in self.growth_sizes)
            if small != large:
                assert_constant_op_count(axis, self.growth_sizes, count, " at construction")


class NormedContract(ModuleContract):
    """What is asked besides of a module with norms among its parts."""

    @core
    def test_norms_start_with_weights_of_one_and_biases_of_zero(self, attempt: Attempt, draw: Draw) -> None:
        call = next(iter(self.cases.values()))(draw)
        for name, value in self.build(attempt, call).describe()["parameters"].items():
            start = {"weight": 1.0, "bias": 0.0}.get(name.rpartition(".")[2]) if "norm" in name else None
            if start is not None and not (value == start).all():
                some = value.flatten()[:4].tolist()
                fail(f"a norm starts as the plain norm, its weights 1 and its biases 0: {name}", f"got {some} …")


@lru_cache(maxsize=256)
def _reference_shapes(master: Path, name: str, init: tuple[tuple[str, Any], ...]) -> list[tuple[str, tuple[int, ...]]]:
    with torch.random.fork_rng(devices=[]):
        module = vars(catalog.load(master))[name](**dict(init))
    return [(name, tuple(value.shape)) for name, value in module.named_parameters()]
