"""A test that an attempt defines, run on one implementation of its kata, which it must judge by what that does.

The implementation is there before the attempt's file runs. A hook then keeps the test from reading it: its code, the
values of its defaults, and frames, which would tell implementations apart by more than their behaviour.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import logging
import math
import random
import sys
import time
import traceback
import types
import unittest
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dojo.judge.protocol import Message
from dojo.judge.worker.errors import explain

PROGRAM = "program"
MOST_JUNK = 200_000  # bytes that are taken before a program is made, so that its address says nothing
UNREAD = frozenset("__code__ __defaults__ __kwdefaults__".split())
FRAMES = frozenset("tb_frame gi_frame gi_code cr_frame cr_code ag_frame ag_code".split())
TRACING = frozenset("sys.settrace sys.setprofile sys.monitoring.register_callback sys._current_frames".split())
LOOKOUTS = (vars(traceback), vars(inspect), vars(logging))  # for whoever calls these
UNIMPORTED = frozenset({"inspect", "dis"})
CLOCKS = "time time_ns perf_counter perf_counter_ns monotonic monotonic_ns process_time process_time_ns".split()
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}  # beyond what float32 inside of a right program costs


class Refused(PermissionError, ValueError):
    """The test reached for what it may not judge by. Python's own callers of `_getframe` expect a ValueError."""


Names = dict[str, Any]  # of a module
Hide = Callable[[list[Names]], None]


def code_hider() -> Hide:
    """What hides the code of these modules from now on, of none for nothing. Made before a worker is confined."""
    hidden: list[Names] = []

    # An attempt can change builtins and this module: what the hook uses is its own.
    def hook(
        event: str, args: tuple[Any, ...], unread: Any = UNREAD, frames: Any = FRAMES, tracing: Any = TRACING,
        kind: Any = type, function: Any = types.FunctionType, refused: Any = Refused,
        lookouts: Any = LOOKOUTS, depth: int = 8,
    ) -> None:  # fmt: skip
        if not hidden:
            return
        if event == "object.__getattr__":
            value, name = args
            if name in frames:
                raise refused(f"a test may not look at frames ({name}): it judges by what the program does")
            if name in unread and kind(value) is function:
                for each in hidden:
                    if value.__globals__ is each:
                        raise refused(f"a test may not read the program ({name}): it judges by what the program does")
        elif event in tracing:
            raise refused(f"a test may not look at frames ({event}): it judges by what the program does")
        elif event == "sys._getframe":
            frame = args[0]
            for each in lookouts * depth:
                if frame is not None and frame.f_globals is each:
                    frame = frame.f_back
            for each in hidden:
                if frame is not None and frame.f_globals is each:
                    raise refused(f"a test may not look at frames ({event}): it judges by what the program does")

    def hide(modules: list[Names]) -> None:
        hidden[:] = modules

    sys.addaudithook(hook)
    return hide


class Trial:
    """The program of a trial, what hides it, and the test that is run on it."""

    def __init__(self, hide: Hide | None) -> None:
        self._hide = hide
        self.given: Names = {}  # what the module of the attempt has from the start

    def implement(self, source: str, names: list[str], relaxed: list[str], origin: str) -> Message:
        """Make the program that the test will be given, before the attempt's file has a say in anything.

        `relaxed` takes away what a test may not rest on, to find out whether it does: `clock` stops the clocks,
        `tolerance` compares no finer than a right program may differ, and `values` starts modules with the values of
        `origin`'s. With `draws` modules draw other numbers at construction, as a right program may.
        """
        self._junk = [bytearray(random.SystemRandom().randrange(1, MOST_JUNK)) for _ in range(8)]
        other = vars(_module(origin)) if "values" in relaxed else {}
        self.module, self.relaxed = _module(source), relaxed
        missing = [name for name in names if name not in vars(self.module)]
        if missing:
            raise NameError(f"the program defines no {' and no '.join(missing)}")
        for name in names:
            made = vars(self.module)[name]
            if isinstance(made, type) and issubclass(made, nn.Module):
                if "draws" in relaxed:
                    _draw_otherwise(made)
                if name in other:
                    _start_like(made, other[name])
        self.namespace = types.SimpleNamespace(**{name: vars(self.module)[name] for name in names})
        if "tolerance" in relaxed:
            _give_near_floats(vars(self.namespace))
        self.given = {"__builtins__": vars(builtins) | {"__import__": _importing(builtins.__import__)}}
        self.begin()
        return {}

    def run(self, test: Callable[[Any], Any], seed: int, files: Mapping[str, str]) -> Message:
        """What the attempt's test answers about the program: it accepts, it rejects, or it gives no answer."""
        for shortcut in self.relaxed:
            RELAXATIONS.get(shortcut, lambda: None)()
        unittest.TestResult._exc_info_to_string = _without_frames  # type: ignore[attr-defined]
        torch.manual_seed(seed)
        random.seed(seed)
        self.begin(getattr(test, "__globals__", {}))
        try:
            value = test(self.namespace)
        except BaseException as error:
            self.end()
            through = _passed_through(error, vars(self.module))
            rejects = isinstance(error, AssertionError) or (through and isinstance(error, Exception))
            return {"answer": "rejects" if rejects else "none", "because": explain(error, files)}
        self.end()
        if value is None:
            return {"answer": "accepts", "because": {}}
        got = str(value) if type(value) in (bool, int, float) else f"a {type(value).__name__}"
        return {"answer": "none", "because": {"text": f"it returned {got} instead of None"}}

    def begin(self, *more: Names) -> None:
        """Hide the program, and the frames of these modules, from now on."""
        assert self._hide is not None
        self._hide([vars(self.module), *more])

    def end(self) -> None:
        """Hide nothing any more: the test is over, and what it did is to be told."""
        if self._hide is not None:
            self._hide([])


def _module(source: str) -> types.ModuleType:
    """A program as a module. No line of it has a number of its own, and no file its name."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            vars(node).update(lineno=1, end_lineno=1, col_offset=0, end_col_offset=0)
    module = sys.modules[PROGRAM] = types.ModuleType(PROGRAM)
    exec(compile(tree, f"{PROGRAM}.py", "exec"), module.__dict__)
    return module


def _passed_through(error: BaseException, program: Names) -> bool:
    """Whether an exception came out of the program, whoever raised it there."""
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_globals is program:
            return True
        step = step.tb_next
    return False


def _without_frames(result: unittest.TestResult, error: Any, test: unittest.TestCase) -> str:
    """What unittest notes of a failure; its own way looks at frames, which a test may not."""
    return f"{error[0].__name__}: {error[1]}"


def _importing(real: Callable[..., Any]) -> Callable[..., Any]:
    def importing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] in UNIMPORTED:
            raise ImportError(f"a test may not import {name}: it judges by what the program does")
        return real(name, *args, **kwargs)

    return importing


def _start_like(made: type, other: type) -> None:
    """Let modules of a class start with the values that another class draws, and draw no more than that."""
    init = made.__init__  # type: ignore[misc]

    def like(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        state = torch.get_rng_state()
        init(self, *args, **kwargs)
        torch.set_rng_state(state)
        own, twin = dict(nn.Module.named_parameters(self)), other(*args, **kwargs)
        with torch.no_grad():
            for name, value in twin.named_parameters():
                if name in own and own[name].shape == value.shape:
                    own[name].copy_(value)

    made.__init__ = like  # type: ignore[misc]


def _draw_otherwise(made: type) -> None:
    """Let modules of a class draw numbers of their own at construction, and one that the test's generator gives."""
    init = made.__init__  # type: ignore[misc]

    def otherwise(self: nn.Module, *args: Any, **kwargs: Any) -> None:
        state, drawn = torch.get_rng_state(), random.SystemRandom().randrange(1 << 31)
        torch.manual_seed(drawn)
        init(self, *args, **kwargs)
        torch.set_rng_state(state)
        torch.rand(())

    made.__init__ = otherwise  # type: ignore[misc]


def _stop_clocks() -> None:
    for name in CLOCKS:
        stopped: Any = 1 if name.endswith("_ns") else 1.0
        setattr(time, name, lambda stopped=stopped: stopped)


def _compare_loosely() -> None:
    """Every comparison of floating tensors, by torch's own functions, allows what right programs may differ by."""
    close, assert_close, equal, exactly = torch.isclose, torch.testing.assert_close, torch.equal, Tensor.eq

    def loosely(a: Tensor, b: Any, **more: Any) -> Tensor:
        wide = torch.as_tensor(b, dtype=a.dtype, device=a.device)
        return close(a, wide, equal_nan=bool(more.get("equal_nan")), **TOLERANCE)

    def floating(*values: Any) -> bool:
        return any(isinstance(value, Tensor) and value.is_floating_point() for value in values)

    def eq(a: Tensor, b: Any) -> Any:
        return loosely(a, b) if floating(a) else exactly(a, b)

    def same(a: Tensor, b: Tensor) -> bool:
        return bool(a.shape == b.shape and loosely(a, b).all()) if floating(a) else equal(a, b)

    def allclose(a: Tensor, b: Tensor, *_: Any, **more: Any) -> bool:
        return bool(loosely(a, b, **more).all())

    def all_are_close(a: Any, b: Any, *_: Any, **more: Any) -> None:
        tolerance: Any = TOLERANCE if floating(a, b) else {}
        assert_close(a, b, **{key: value for key, value in more.items() if key not in ("rtol", "atol")}, **tolerance)

    changed: Any = torch
    changed.equal, changed.allclose, changed.testing.assert_close = same, allclose, all_are_close
    changed.isclose = lambda a, b, *_, **more: loosely(a, b, **more)
    for name, function in {"eq": eq, "__eq__": eq, "equal": same, "allclose": allclose}.items():
        setattr(Tensor, name, function)
    changed.Tensor.isclose = changed.isclose
    changed.Tensor.__ne__ = lambda a, b: ~eq(a, b)
    changed = math
    changed.isclose = _is_near


class _Near(float):
    """A float that equals another which a right program may give in its place."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (int, float)) and _is_near(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __sub__(self, other: Any) -> Any:
        return 0.0 if self == other else float(self) - other

    def __rsub__(self, other: Any) -> Any:
        return 0.0 if self == other else other - float(self)

    __hash__ = float.__hash__


def _is_near(a: float, b: float, **_: Any) -> bool:
    return abs(float(a) - float(b)) <= TOLERANCE["atol"] + TOLERANCE["rtol"] * abs(float(b))


def _give_near_floats(program: Names) -> None:
    """Floats that come out of these functions, and of the methods of these classes, are compared loosely too."""

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def near(*args: Any, **kwargs: Any) -> Any:
            value = function(*args, **kwargs)
            return _Near(value) if type(value) is float else value

        return near

    for name, made in program.items():
        if isinstance(made, types.FunctionType):
            program[name] = wrapped(made)
        elif isinstance(made, type):
            methods = {k: v for k, v in vars(made).items() if isinstance(v, types.FunctionType) and k[0] != "_"}
            for method, function in methods.items():
                setattr(made, method, wrapped(function))


RELAXATIONS: dict[str, Callable[[], None]] = {"clock": _stop_clocks, "tolerance": _compare_loosely}
REQUESTS: dict[str, Callable[..., Message]] = {
    "implement": lambda session, **more: session.trial.implement(**more),
    "run_test": lambda session, test, seed: session.trial.run(session.resolve(test), seed, session.files),
}
