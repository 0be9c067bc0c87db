"""The house rules of a function in NumPy alone, whose calls and formulas are tensors: the worker hands out arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from dojo.contracts.checks import tolerance
from dojo.contracts.checks.assertions import fail
from dojo.contracts.checks.inputs import Call, Draw
from dojo.contracts.checks.operations import Ban, assert_constant_op_count
from dojo.contracts.checks.tolerance import Budget, is_floating
from dojo.contracts.function import Contract
from dojo.contracts.harness import bare, core, fast, robust
from dojo.judge.protocol import mapped
from dojo.judge.proxy import Attempt
from dojo.verdict.failures import NoTensor

NO_TORCH = Ban(".")
SPURIOUS = "encountered in matmul"  # of which some BLAS makes NumPy warn for no reason


class NumpyContract(Contract):
    """What the house rules ask of a function of NumPy's arrays.

    There is no autograd: a backward is a function of its own, and its oracle may ask torch for gradients. Dtypes are a
    check of their own, and elsewhere a float64 answer serves as well. Half precision is not asked for.
    """

    in_numpy = True
    through = "in_arrays"
    differentiable = False
    half: ClassVar[tuple[torch.dtype, ...]] = ()
    needs: ClassVar[dict[str, str]] = Contract.needs | {
        "test_half_precision_is_computed_in_float32": "half",
        "test_no_warning_of_overflow": "hard_cases",
    }

    def place(self, attempt: Attempt) -> str:
        """Where arrays are, whatever the device of the grading."""
        return "cpu"

    def named(self, result: Any, case: str = "") -> dict[str, Any]:
        """The results of a call by name; a float of Python is an array without axes."""
        found = super().named(result, case) if self.results else {"result": result}
        for value in found.values():
            if not isinstance(value, (Tensor, float)):
                raise NoTensor(value, "numpy.ndarray")
        return {name: torch.tensor(each).double() if type(each) is float else each for name, each in found.items()}

    def result_leaves(
        self, result: Any, budget: Budget, device: str, case: str, call: Call, dtype: torch.dtype
    ) -> dict[str, Any]:
        """The results by name, floating ones of whatever dtype as though of the one that is asked for."""

        def narrowed(value: Any) -> Any:
            value = torch.tensor(value) if type(value) is float else value
            return value.to(dtype) if is_floating(value) else value

        return super().result_leaves(mapped(narrowed, result), budget, device, case, call, dtype)

    @core
    def test_uses_only_what_is_allowed(self, attempt: Attempt, draw: Draw) -> None:
        asked = []
        for make in self.cases.values():
            callee, args, kwargs = self.prepare_call(attempt, make(draw))
            asked.append({"do": "go", "target": callee.target, "prepared": callee.stage(*args, **kwargs).arguments})
        readings = attempt.ask_of([], {"do": "observe", "inner": asked, "watched": []})["readings"]
        NO_TORCH.judge(readings, attempt.parts, once=True)  # an array is no stranger here

    @robust
    def test_results_have_the_dtype_of_the_input(self, attempt: Attempt, draw: Draw) -> None:
        """A mask or a scale in float64 makes all that follows float64: twice the memory, half the speed."""
        for dtype in (torch.float32, torch.float64):
            for case, make in self.cases.items():
                call = make(draw).cast(dtype)
                args, kwargs = self.arguments(call)
                with self.case_context(attempt, case, call):
                    got = self.ready(attempt, call, dtype).request(args, kwargs)["value"]
                    for name, value in tolerance.named_results(got, self.results).items():
                        if isinstance(value, Tensor) and value.dtype is not dtype:
                            seen = f"got {bare(value.dtype)} for {bare(dtype)}"
                            fail(f"the {name.replace('_', ' ')} has the dtype of the input", seen, where=case)

    @robust
    def test_no_warning_of_overflow(self, attempt: Attempt, draw: Draw) -> None:
        """A RuntimeWarning is the only trace of an exponential that overflowed, until the loss is nan."""
        for case, make in (self.cases | self.hard_cases).items():
            callee, args, kwargs = self.prepare_call(attempt, call := make(draw))
            with self.case_context(attempt, case, call):
                texts = callee.ask(do="warned", target=callee.target, args=args, kwargs=kwargs)["value"]
                seen = [text for text in texts if SPURIOUS not in text]
                if seen:
                    fail("NumPy has nothing to warn of", f"RuntimeWarning: {seen[0][:200]}", where=case)

    @fast
    def test_operation_count_does_not_grow(self, attempt: Attempt, draw: Draw) -> None:
        for axis, make in self.growth.items():

            def count(size: int, make: Callable[[Draw, int], Call] = make) -> int:
                callee, args, kwargs = self.prepare_call(attempt, make(draw, size))
                return callee.ask(do="steps", target=callee.target, args=args, kwargs=kwargs)["value"]

            assert_constant_op_count(axis, self.growth_sizes, count, what="lines of Python")
