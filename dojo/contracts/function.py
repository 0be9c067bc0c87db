"""The house rules of a function of tensors, as checks. A grader subclasses `Contract` and says what is its kata's own.

Each test's name is a sentence of the contract; its tier is its mark. What a subclass states besides `Harness`'s:

- `cases`, small ones first, ordinary ones alone: what the field's own code gets right; `dead_rows`, masks by which a
  query may attend to nothing; `hard_cases`, what else is not ordinary;
- `oracle(**inputs)`, dumber than the solution or someone else's, differentiable in float64; what needs them takes
  `init` or `params` as well;
- `variants`, other accepted evaluations of the same map, three where there are as many, the least accurate accepted
  one among them;
- `ban`, `time_limit`, for what it may use and cost, and `near_300`.

A case is a function of a `Draw`, or what `call` is given beyond its own defaults: with
`call(d, batch=2, seq=5, d_model=6)` the case `{"seq": 1}` has one token. A size goes by the name of its axis in the
master's signature, the leading axes of `*batch` by `shape`. From the axes come, where a grader does not state them,
`call` itself, `more_shapes` (one of each, no leading axes, three of them), `grows` (each of them) and `timed`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from dojo.contracts.checks import tolerance
from dojo.contracts.checks.assertions import assert_raises, assert_state_unchanged, fail, too_much
from dojo.contracts.checks.inputs import Call, Draw
from dojo.contracts.checks.operations import NOTHING_BANNED, Ban, assert_constant_op_count, operation_count
from dojo.contracts.checks.timing import assert_time_within
from dojo.contracts.checks.tolerance import is_floating
from dojo.contracts.harness import Harness, Maker, bare, core, fast, half_precisions, robust, transposed
from dojo.judge.protocol import mapped, tensors_in
from dojo.judge.proxy import Attempt, Module
from dojo.verdict.failures import Raised

Case = Maker | Mapping[str, Any]
PRIMES = (5, 7, 3, 11, 2, 13)  # sizes of axes: two that were mixed up do not fit
TIMED_ENTRIES = 2**17  # of the largest tensor of a timed call
LEADING_AXES = "the leading axes"  # in words; in a call they are its `shape`
LEADING = {"no_leading_axes": (), "three_leading_axes": (2, 1, 3)}


class Contract(Harness):
    """What the house rules ask of a function of tensors."""

    # Where a `Maker` is declared, a grader may write a `Case`: `complete` makes it one.
    call: ClassVar[Callable[..., Call]]  # `by_axes` by default
    cases: ClassVar[dict[str, Maker]]
    more_shapes: ClassVar[dict[str, Maker]]  # what house rule 1 asks for besides; the axes' by default
    sizes: ClassVar[dict[str, int]] = {}  # of axes, where `call` is the default and primes will not do
    dead_rows: ClassVar[dict[str, Maker]] = {}
    hard_cases: ClassVar[dict[str, Maker]] = {}
    representative: ClassVar[tuple[str, ...] | None] = None  # the cases for dtype and layout; None for all
    ban: ClassVar[Ban] = NOTHING_BANNED
    near_300: Maker
    grows: ClassVar[dict[str, str]]  # what an operation count must not grow with: in words, and the size
    growth: ClassVar[dict[str, Callable[[Draw, int], Call]]]
    growth_sizes: ClassVar[tuple[int, int]] = (2, 14)
    memory_in: ClassVar[str] = ""  # the size that no tensor grows faster than; empty where some tensor may
    linear_in: ClassVar[Callable[[Draw, int], Call]]

    needs: ClassVar[dict[str, str]] = {
        "test_gradients_match_the_definition": "differentiable",
        "test_any_leading_dimensions_and_length_one": "more_shapes",
        "test_a_query_that_may_attend_to_nothing_gets_zeros": "dead_rows",
        "test_hard_cases_match_the_definition": "hard_cases",
        "test_constants_get_no_gradient": "constant_inputs",
        "test_float16_values_near_300_do_not_overflow": "near_300",
        "test_memory_grows_no_faster_than_the_input": "linear_in",
        "test_optional_inputs_may_be_given_by_name": "optional_inputs",
    }
    optional_inputs: ClassVar[tuple[str, ...]] = ()
    constant_inputs: ClassVar[bool] = False

    @classmethod
    def by_axes(
        cls, d: Draw, shape: tuple[int, ...] = (2, 5), scale: float = 1.0, offset: float = 0.0, **more: Any
    ) -> Call:
        """The default call: normal floats around `offset`, and masks, of the axes that the signature names.

        Other words are sizes of axes, inputs, or see `constructed`.

        Raises:
            TypeError: a required input is neither, so that a grader has to draw it.
        """
        sizes = {axis: more.pop(axis, size) for axis, size in cls.sizes.items()}
        inputs: dict[str, Any] = {}
        for name in cls.signature.inputs[: cls.signature.required]:
            leading = shape if name in cls.signature.open else ()
            size = (*leading, *(sizes[axis] for axis in cls._axes(name)))
            match cls.signature.kinds.get(name):
                case "Float":
                    inputs[name] = offset + d.normal(*size, scale=scale)
                case "Bool":
                    inputs[name] = d.mask(*size)
                case _ if name not in more:
                    raise TypeError(f"{cls.__name__} draws floats and masks alone: state `call`, which draws `{name}`")
        return cls.constructed(d, Call(inputs), sizes, more)

    @classmethod
    def constructed(cls, d: Draw, made: Call, sizes: dict[str, int], more: dict[str, Any]) -> Call:
        """The call with what is more than the axes tell: inputs."""
        return made.with_inputs(**more)

    @classmethod
    def complete(cls) -> None:
        cls._infer()
        for table in ("cases", "more_shapes", "dead_rows", "hard_cases"):
            setattr(cls, table, {name: cls._maker(case) for name, case in getattr(cls, table).items()})
        cls.timed = cls._maker(cls.timed)
        if hasattr(cls, "near_300"):
            cls.near_300 = cls._maker(cls.near_300)
        grows = {word: partial(cls._grown, size=size) for word, size in cls.grows.items()}
        cls.growth = grows | getattr(cls, "growth", {})
        if cls.memory_in and not hasattr(cls, "linear_in"):
            cls.linear_in = partial(cls._grown, size=cls.memory_in, leading=1)
        cls.constant_inputs = bool({*cls.constants} & {*cls.signature.inputs})
        cls.optional_inputs = cls.signature.inputs[cls.signature.required :]

    @classmethod
    def _infer(cls) -> None:
        """Fill in what the axes tell, where a grader does not."""
        named = cls.named_sizes()
        if not hasattr(cls, "call"):
            cls.call = cls.by_axes
            cls.sizes = dict(zip(named, PRIMES, strict=False)) | cls.sizes
        taken = inspect.signature(cls.call).parameters
        axes = [axis for axis in dict.fromkeys((*named, *cls.sizes)) if axis in taken or axis in cls.sizes]
        leading = {"shape"} & {*taken} if cls.signature.open else {}
        shapes: dict[str, Case] = {f"{axis}_of_one": {axis: 1} for axis in axes}
        shapes |= {name: {"shape": shape} for name, shape in LEADING.items() if leading}
        most = max((len(cls._axes(name)) + (name in cls.signature.open) for name in cls.signature.kinds), default=1)
        side = round(TIMED_ENTRIES ** (1 / max(1, most)))
        timed: Case = dict.fromkeys(axes, side) | dict.fromkeys(leading, (side,))
        grows = {axis: axis for axis in axes} | ({LEADING_AXES: "shape"} if leading else {})
        inferred = {"more_shapes": shapes, "timed": timed, "grows": {} if hasattr(cls, "growth") else grows}
        for name, value in inferred.items():
            if not hasattr(cls, name):
                setattr(cls, name, value)

    @classmethod
    def named_sizes(cls) -> list[str]:
        """What the sizes of a call are named by: the axes of its required tensors, but for leading ones."""
        required = cls.signature.inputs[: cls.signature.required]
        return list(dict.fromkeys(axis for name in required for axis in cls._axes(name)))

    @classmethod
    def _axes(cls, name: str) -> list[str]:
        """The axes of an input, but for leading ones."""
        return cls.signature.axes.get(name, "").split()[name in cls.signature.open :]

    @classmethod
    def _grown(cls, d: Draw, n: int, size: str, leading: int = 2) -> Call:
        return cls.call(d, **{size: (n,) * leading if size == "shape" else n})

    @classmethod
    def _maker(cls, case: Case) -> Maker:
        return partial(cls.call, **case) if isinstance(case, Mapping) else case

    @core
    def test_values_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        self.verify_all(attempt, draw, ((case, make(draw)) for case, make in self.cases.items()))

    @core
    def test_gradients_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        self.verify_all(attempt, draw, ((case, make(draw)) for case, make in self.cases.items()), gradients=True)

    @core
    def test_optional_inputs_may_be_given_by_name(self, attempt: Attempt, draw: Draw) -> None:
        for name in self.optional_inputs:
            made = next((each for each in (make(draw) for make in self.cases.values()) if name in each.inputs), None)
            if made is None:
                continue
            args, kwargs = self.arguments(made.to(self.place(attempt)))
            count = self.signature.required
            named = dict(zip(self.signature.inputs[count:], args[count:], strict=False)) | kwargs
            label = f"by name: {', '.join(named)}"
            with self.case_context(attempt, label, made):
                got = {"result": self.ready(attempt, made).request(args[:count], named)["value"]}
            self.compare(attempt, draw, label, made, got)

    @core
    def test_uses_only_what_is_allowed(self, attempt: Attempt, draw: Draw) -> None:
        watched = list(self.ban.functions)
        representative = self.representative_cases()
        chosen = [make(draw) for name, make in representative.items() if name in self.cases]
        inits = {repr(made.init): made.init for made in chosen if made.init or made.params}
        built = [(getattr(attempt, self.name), *self.signature.construction(init)) for init in inits.values()]
        if self.ban != NOTHING_BANNED and built:
            self.ban.judge(attempt.observed(built, watched), attempt.parts, once=True)
        self.ban.judge(attempt.observed([self.prepare_call(attempt, made) for made in chosen], watched), attempt.parts)
        if self.ban == NOTHING_BANNED:
            return
        prepared = [self.prepare_call(attempt, make(draw)) for make in self.cases.values()]
        self.ban.judge(attempt.observed(prepared, watched, counted=False), attempt.parts)
        prepared = [self.prepare_call(attempt, made) for made in chosen]
        prepared = [(each.eval(), args, kwargs) for each, args, kwargs in prepared if isinstance(each, Module)]
        if prepared:
            self.ban.judge(attempt.observed(prepared, watched, counted=False), attempt.parts)
        prepared = []
        for dtype in (torch.float32, torch.float64, *self.half):
            call = next(iter(self.cases.values()))(draw).cast(dtype)
            prepared.append((self.ready(attempt, call, dtype), *self.arguments(call.to(self.place(attempt)))))
        with suppress(Raised):  # what fails with gradients or in another dtype is for other checks to tell
            readings = attempt.observed(prepared, watched, counted=False, gradients=self.differentiable)
            self.ban.judge(readings, attempt.parts)
        for name, make in (self.more_shapes | self.hard_cases | self.dead_rows).items():
            with suppress(Raised):  # what is not ordinary may be refused, or fail, as the field's own code does
                calls = [self.prepare_call(attempt, make(draw))]
                self.ban.judge(attempt.observed(calls, watched, counted=name in representative), attempt.parts)

    @robust
    def test_any_leading_dimensions_and_length_one(self, attempt: Attempt, draw: Draw) -> None:
        """Generation runs with one token, and vmap, beams or several heads bring more leading dimensions."""
        self.verify_all(attempt, draw, ((case, make(draw)) for case, make in self.more_shapes.items()), gradients=True)

    @robust
    def test_a_query_that_may_attend_to_nothing_gets_zeros(self, attempt: Attempt, draw: Draw) -> None:
        """A padded batch turns into nan, or its padding attends to everything. Most published code does this too: fine
        with a full or causal mask, wrong with padding.
        """
        self.verify_all(attempt, draw, ((case, make(draw)) for case, make in self.dead_rows.items()), gradients=True)

    @robust
    def test_hard_cases_match_the_definition(self, attempt: Attempt, draw: Draw) -> None:
        """It works on ordinary inputs, and is wrong, or raises, on some that the statement names."""
        self.verify_all(attempt, draw, ((case, make(draw)) for case, make in self.hard_cases.items()), gradients=True)

    @robust
    def test_float64_is_at_least_as_accurate_as_float32(self, attempt: Attempt, draw: Draw) -> None:
        """Gradient checks run in float64, and fail where a step falls below float32."""
        calls = ((case, make(draw)) for case, make in self.representative_cases().items())
        self.verify_all(attempt, draw, calls, torch.float64, gradients=True)

    @robust
    @half_precisions
    def test_half_precision_is_computed_in_float32(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """Models are trained and served in half precision: each reduction left in it costs accuracy that no later step
        brings back.
        """
        calls = [(case, make(draw)) for case, make in self.representative_cases().items()]
        if self.rounded_once:  # then the result is held to less than it is beside its gradients
            self.verify_all(attempt, draw, calls, dtype)
        self.verify_all(attempt, draw, calls, dtype, gradients=True)

    @robust
    def test_constants_get_no_gradient(self, attempt: Attempt, draw: Draw) -> None:
        """What should stay as it is, a reference model or what advantages came from, is trained along. The field's own
        code does this too: fine where its caller has detached them.
        """
        for case, make in self.cases.items():
            call = make(draw)
            callee, args, kwargs = self.prepare_call(attempt, call)
            inputs = tolerance.named_leaves(self.signature.in_order(call.inputs)).items()
            with self.case_context(attempt, case, call):
                grads = callee.ask(do="forward_backward", target=callee.target, args=args, kwargs=kwargs)["inputs"]
                for name, grad in zip([k for k, v in inputs if is_floating(v)], grads, strict=False):
                    if name in self.constants and isinstance(grad, Tensor) and grad.count_nonzero():
                        seen = f"a gradient flows back to it, up to {grad.abs().max():.3g}"
                        fail(f"{name} is constant: it gets no gradient", seen)

    @robust
    def test_float16_values_near_300_do_not_overflow(self, attempt: Attempt, draw: Draw) -> None:
        """Activations of trained models reach some hundreds: a product of two is inf in float16, and the loss is nan
        from there on.
        """
        self.verify(attempt, draw, "near_300", type(self).near_300(draw), torch.float16)

    @robust
    def test_inputs_and_global_state_are_left_as_they_were(self, attempt: Attempt, draw: Draw) -> None:
        """The residual stream, or the next call's random numbers, change behind the caller's back."""
        ordinary = [(*case, torch.float32) for case in self.cases.items()]
        ordinary += [(*self.representative_case(), dtype) for dtype in (torch.float64, *self.half)]
        for tried in (ordinary, *([(*case, torch.float32)] for case in (self.hard_cases | self.dead_rows).items())):
            asked, calls = [], []
            for case, make, dtype in tried:
                call = make(draw).cast(dtype)
                callee, call = self.ready(attempt, call, dtype), call.to(self.place(attempt))
                args, kwargs = self.arguments(call)
                request = {"do": "call", "target": callee.target, "args": args, "kwargs": kwargs, "watch": True}
                asked.append((callee, request | {"watch_grad": dtype is torch.float32}))
                calls.append((case, dtype, call))
            with suppress(*(() if tried is ordinary else (Raised,))):  # what is not ordinary may raise
                for (case, dtype, call), reply in zip(calls, attempt.ask_each(asked), strict=True):
                    given = tolerance.named_leaves(self.signature.in_order(call.inputs)).items()
                    sent = [(name, v) for name, v in given if isinstance(v, Tensor)]
                    where = "" if dtype is torch.float32 else f" in {bare(dtype)}"
                    for (name, v), after in zip(sent, reply["inputs"], strict=True):
                        if v.shape != after.shape or not ((v == after) | (v.isnan() & after.isnan())).all():
                            fail("inputs are not modified", f"{name} was changed in the case `{case}`{where}")
                    assert_state_unchanged(reply)

    @robust
    def test_any_memory_layout_gives_the_same(self, attempt: Attempt, draw: Draw) -> None:
        """Heads are split by transposing: the next module gets tensors that are not dense, and `view` fails on them."""
        for number, (case, make) in enumerate(self.representative_cases().items()):
            call = make(draw)
            tensors = {k: v for k, v in call.inputs.items() if tensors_in(v)}
            relaid = {kind: _relaid(tensors, relay) for kind, relay in LAYOUTS.items()}
            relaid |= {f"{k} expanded": _relaid({k: v}, _expanded) for k, v in tensors.items()}
            calls = [(f"{case}, {kind}", call.with_inputs(**inputs)) for kind, inputs in relaid.items()]
            self.verify_all(attempt, draw, calls, gradients=number == 0)

    @robust
    def test_each_call_stands_alone(self, attempt: Attempt, draw: Draw) -> None:
        """What is kept from one batch is given out for the next."""
        call = next(iter(self.cases.values()))(draw)
        callee, args, kwargs = self.prepare_call(attempt, call)
        staged = callee.stage(*args, **kwargs)
        # The same objects, then the same sum in another order, then one element changed: no cheap key tells them apart.
        calls = [call, call.with_inputs(**_changed(call, _reversed)), call.with_inputs(**_changed(call, _nudged))]
        kept = []
        for each in calls:
            args, kwargs = self.arguments(each.to(self.place(attempt)))
            staged.refill(*args, **kwargs)
            kept.append(staged.go(grad=False))
        for number, (each, result) in enumerate(zip(calls, kept, strict=True), 1):
            label = f"call {number} of {len(calls)} with the same tensors, refilled in between"
            self.compare(attempt, draw, label, each, {"result": staged.fetch(result)})
        staged.overwrite_result(staged.go(grad=False))
        label, got = "the same call again, after its first result was overwritten", staged.fetch(staged.go(grad=False))
        self.compare(attempt, draw, label, each, {"result": got})

    @fast
    def test_operation_count_does_not_grow(self, attempt: Attempt, draw: Draw) -> None:
        for axis, make in self.growth.items():

            def count(size: int, make: Callable[[Draw, int], Call] = make) -> int:
                callee, args, kwargs = self.prepare_call(attempt, make(draw, size))
                return operation_count(callee.operations(*args, **kwargs))

            assert_constant_op_count(axis, self.growth_sizes, count)

    @fast
    def test_memory_grows_no_faster_than_the_input(self, attempt: Attempt, draw: Draw) -> None:
        small, factor = 64, 8
        largest = []
        for size in (small, factor * small):
            callee, args, kwargs = self.prepare_call(attempt, type(self).linear_in(draw, size))
            bytes_of = callee.largest(*args, **kwargs)
            if not bytes_of:
                fail("tensors are made in the thread that is called", "no operation was seen there")
            largest.append(max(bytes_of.items(), key=lambda item: item[1]))
        (_, before), (name, after) = largest
        if after > 2 * factor * before:
            axis = {"shape": LEADING_AXES}.get(self.memory_in, self.memory_in or "seq")
            sentence = f"no tensor grows faster than the input: nothing the size of {axis} × {axis} is needed"
            seen = f"{name} made {before} bytes at {axis} {small} and {after} bytes at {axis} {factor * small}"
            too_much(sentence, seen)

    @fast
    def test_time_stays_near_the_reference(self, attempt: Attempt, reference: Attempt, draw: Draw) -> None:
        if self.ban != NOTHING_BANNED:  # not even for inputs as large as these
            prepared = [self.prepare_call(attempt, type(self).timed(draw))]
            self.ban.judge(attempt.observed(prepared, list(self.ban.functions), counted=False), attempt.parts)
        assert_time_within(self.time_limit, self.race(attempt, reference, draw))

    def refuses(self, attempt: Attempt, call: Call, *values: Any, sentence: str) -> None:
        """The call, or the construction before it, is a ValueError whose text holds these values; of a tuple, one."""

        def use() -> None:
            callee, args, kwargs = self.prepare_call(attempt, replace(call, params={}))  # which may not fit
            callee.request(args, kwargs)

        assert_raises(use, *values, sentence=sentence)

    def refuses_each(self, attempt: Attempt, call: Call, **wrong: Iterable[Any]) -> None:
        """Each of these values of an input, beside the others of the call, is refused; a tensor for its shape.

        The message holds that shape, or a size of it that the call's own tensor does not have there.
        """
        for name, values in wrong.items():
            for value in values:
                if isinstance(value, Tensor):
                    right = call.inputs[name].shape
                    odd = [a for a, b in zip(value.shape, right, strict=False) if a != b and value.dim() == len(right)]
                    shape = ", ".join(map(str, value.shape))
                    held, argument = (f"({shape}", f"[{shape}", *odd), f"{name} of shape {tuple(value.shape)}"
                else:
                    held, argument = (value, f"{value:g}"), f"{name}={value}"
                self.refuses(attempt, call.with_inputs(**{name: value}), held, sentence=f"{argument} is refused")

    def representative_cases(self) -> dict[str, Maker]:
        """The cases that dtype and layout are tried on."""
        if self.representative is None:
            return self.cases
        every = self.cases | self.hard_cases | self.dead_rows
        return {name: make for name, make in every.items() if name in self.representative}

    def representative_case(self) -> tuple[str, Maker]:
        """The first of them."""
        return next(iter(self.representative_cases().items()))


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
    "transposed in memory": transposed,
    "a part of a wider tensor": _sliced,
}


def _changed(call: Call, change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """The floating inputs with other content; where there are none, the integer ones."""
    tensors = {k: v for k, v in call.inputs.items() if tensors_in(v)}
    floats = {k: v for k, v in tensors.items() if any(map(is_floating, tensors_in(v)))}
    return _relaid(floats or tensors, change)


def _relaid(values: dict[str, Any], change: Callable[[Tensor], Tensor]) -> dict[str, Any]:
    return mapped(lambda v: change(v) if isinstance(v, Tensor) else v, values)


def _reversed(value: Tensor) -> Tensor:
    return value.flatten().flip(0).reshape(value.shape)


def _nudged(value: Tensor) -> Tensor:
    changed = _reversed(value)
    if not is_floating(value):
        return changed.flatten().roll(1).reshape(value.shape)
    changed.view(-1)[-1] += 1
    return changed
