"""The attempt as a grader sees it: names to call, modules to hold, gradients that reach through the process border.

    attempt.RoPEReal(d_k=8, max_seq_len=16)(x, positions)

runs in a worker; `torch.autograd.grad` on the result asks the worker for its backward.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dojo.judge import protocol, worker_handle
from dojo.judge.fork_server import ForkServer, FreshStarts
from dojo.judge.protocol import Args, Kwargs, Message, PickledCells
from dojo.verdict.failures import Died, NoTensor
from dojo.verdict.types import Outcome

READING = 5e-3  # seconds that are timed on a GPU, where asking takes some 0.2 ms; unless this takes more calls than
MOST_CALLS = 16


@dataclass
class Attempt:
    """A file under judgement, or a notebook's cells. Its worker starts on first use, and anew after it died."""

    server: ForkServer | FreshStarts
    source: str
    filename: str
    readable: protocol.Others = field(default_factory=list)
    memory: int | None = worker_handle.MEMORY
    device: str = "cpu"
    pickled_cells: PickledCells | None = None
    name: str = "attempt"  # of its module; `__main__` runs it as a script
    timeouts: int = 0
    starved: bool = False  # the last of these had little of a processor
    error_ratio: float = 0.0  # the largest error seen, in units of the allowed error
    parameter_names: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)  # by class and how it is built
    defined: list[str] = field(default_factory=list)  # names, once the attempt is loaded
    answer: Any = None  # what it gave last, for a check that cannot use it
    _worker: worker_handle.Worker | None = None
    _numbered: int = 0

    def ask(self, *requests: Message) -> Iterator[Message]:
        """Requests to the worker of this attempt, done in turn, and their answers."""
        worker = self.worker()
        try:
            answers = worker.ask(*requests)
        except Died as death:
            if death.outcome is Outcome.TIMED_OUT:
                self.timeouts, self.starved = self.timeouts + 1, death.starved
            raise
        return map(self._seen, answers)

    def _seen(self, answer: Message) -> Message:
        self.answer = answer.get("value")
        return answer

    def ask_of(self, callees: Iterable[Callee], request: Message) -> Message:
        """The answer to a request, before which all is done that waits for these callees."""
        waiting = [each for callee in callees for each in callee.take_waiting()]
        answers = self.ask(*(each for each, _ in waiting), request)
        for _, heard in waiting:
            heard(next(answers))
        return next(answers)

    def ask_each(self, asked: Sequence[tuple[Callee, Message]]) -> Iterator[Message]:
        """The answers to requests that go to the worker in one message, each after what waits for its callee."""
        plan: list[tuple[Message, OnAnswer | None]] = []
        for callee, request in asked:
            plan += [*callee.take_waiting(), (request, None)]
        answers = self.ask(*(request for request, _ in plan))
        for _, heard in plan:
            answer = next(answers)
            if heard is None:
                yield answer
            else:
                heard(answer)

    def observed(
        self,
        calls: Sequence[PreparedCall],
        watched: list[str] | None = None,
        counted: bool = True,
        gradients: bool = False,
    ) -> dict[str, Any]:
        """Readings of all these calls together, as `worker.readings` takes them: one message, one profile.

        With `gradients` the floating inputs take them, and the way back from each result is made too.
        """
        word = "forward_backward" if gradients else "call"
        inner = [{"do": word, "target": each.target, "args": args, "kwargs": kwargs} for each, args, kwargs in calls]
        request = {"do": "observe", "inner": inner, "watched": watched, "counted": counted}
        readings: dict[str, Any] = self.ask_of([each for each, _, _ in calls], request)["readings"]
        return readings

    def worker(self) -> worker_handle.Worker:
        """The living worker, with the attempt loaded."""
        if self._worker is None or not self._worker.alive:
            if self.timeouts:
                raise Died(Outcome.TIMED_OUT, "not run: the attempt has timed out already", starved=self.starved)
            self._worker = worker_handle.Worker(self.server, self.filename, self.readable, self.memory)
            try:
                self.defined = self._worker.load(self.contents())["names"]
            except BaseException:
                self._worker.end()
                raise
        return self._worker

    def become(self, source: str) -> None:
        """Go on with another file in the same process: for files of ours alone, which may share one."""
        if source == self.source:
            return
        self.source, self.timeouts = source, 0
        self.parameter_names.clear()
        if self._worker is not None and self._worker.alive:
            try:
                self.defined = self._worker.load(self.contents())["names"]
            except BaseException:
                self._worker.end()
                raise

    def contents(self) -> Message:
        """The request that loads this attempt."""
        if self.pickled_cells is None:
            return {"do": "load", "source": self.source, "name": self.name}
        pickled = torch.frombuffer(bytearray(self.pickled_cells.pickled), dtype=torch.uint8)
        return {"do": "unpack", "pickled": pickled, "cells": [list(cell) for cell in self.pickled_cells.cells]}

    @property
    def parts(self) -> dict[str, str]:
        """The sources by what stands before a line number: nothing for a file, the cell for a notebook."""
        if self.pickled_cells is None:
            return {"": self.source}
        return {f"{label}, ": source for _, label, source in self.pickled_cells.cells}

    def fresh(self) -> None:
        """Give up the present worker, and with it whatever the attempt did to it."""
        if self._worker is not None:
            self._worker.end()

    def close(self) -> None:
        """Give up the worker for good."""
        self.server.later(self.fresh)

    def take_printed(self) -> str:
        """What the attempt printed since last asked."""
        return self._worker.take_printed() if self._worker is not None else ""

    def number(self) -> int:
        """A number to keep an object of the worker under, below those that the worker gives itself."""
        self._numbered -= 1
        return self._numbered

    def __getattr__(self, name: str) -> Callee:
        if name.startswith("_"):
            raise AttributeError(name)
        return Callee(self, name)


OnAnswer = Callable[[Message], None]
Waiting = tuple[Message, OnAnswer]  # a request, and who is told the answer


@dataclass
class Callee:
    """A name of the attempt, or a module that it built: what can be called with tensors and plain values."""

    attempt: Attempt
    target: Any
    names: dict[str, str] = field(default_factory=dict)  # what the attempt calls a parameter, by the judge's name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors = [t for t in protocol.tensors_in((args, kwargs)) if t.requires_grad]
        if torch.is_grad_enabled() and (tensors or self.parameters()):
            sources = (*tensors, *self.parameters().values())
            return _Call.apply(self, args, kwargs, *sources)  # type: ignore[no-untyped-call]  # torch has no annotation
        return self.request(args, kwargs)["value"]

    def ask(self, **request: Any) -> Message:
        """One request about this."""
        return self.attempt.ask_of([self], request)

    def take_waiting(self) -> list[Waiting]:
        """What is to be done before anything is asked, which is then no longer waiting; for a function, nothing."""
        return []

    def build(self, *args: Any, **kwargs: Any) -> Module:
        """The module that a class makes of these arguments, once something is asked about it."""
        kept = protocol.Remote(self.attempt.number())
        module = Module(self.attempt, kept)
        module.later(do="build", target=self.target, args=args, kwargs=kwargs, kept=kept)
        return module

    def parameters(self) -> dict[str, Tensor]:
        """Leaves that stand for the remote parameters, by name; a function has none."""
        return {}

    def renamed(self, found: dict[str, Any]) -> dict[str, Any]:
        """What the worker tells by the attempt's own names of parameters, by the judge's."""
        ours = {theirs: name for name, theirs in self.names.items()}
        return {ours.get(name, name): value for name, value in found.items()}

    def request(self, args: Args, kwargs: Kwargs, **more: Any) -> Message:
        """The worker's whole answer to a call, a module it returned already wrapped."""
        reply = self.ask(do="call", target=self.target, args=args, kwargs=kwargs, **more)
        if isinstance(reply["value"], protocol.Remote):
            reply["value"] = Module(self.attempt, reply["value"])
        return reply

    def method(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """What a method of a kept object gives."""
        return self.ask(do="call", target=self.target, method=name, args=args, kwargs=kwargs)["value"]

    def read(self, name: str) -> Any:
        """An attribute of a kept object."""
        return self.ask(do="read", target=self.target, name=name)["value"]

    def operations(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The readings of `observe` that watching alone gives: operations in all threads."""
        return self.attempt.observed([(self, args, kwargs)], [], counted=False)

    def largest(self, *args: Any, **kwargs: Any) -> dict[str, int]:
        """The readings of `observe` that counting alone gives: bytes of the largest tensors, by operation."""
        largest: dict[str, int] = self.attempt.observed([(self, args, kwargs)])["largest"]
        return largest

    def observe(self, *args: Any, watched: list[str] | None = None, **kwargs: Any) -> dict[str, Any]:
        """Readings of a call, as `worker.readings.instrumentation` reports them."""
        return self.attempt.observed([(self, args, kwargs)], watched or [])

    def keep(self, *args: Any, **kwargs: Any) -> protocol.Remote:
        """A call whose result stays in the worker, whatever it is, and may be the argument of another call."""
        return self.stage(*args, **kwargs).go()

    def fake_device(self, *args: Any, **kwargs: Any) -> Message:
        """What happens on another device, which `worker.readings.instrumentation` makes up: see there."""
        return self.ask(do="fake_device", target=self.target, args=args, kwargs=kwargs)

    def stage(self, *args: Any, **kwargs: Any) -> StagedCall:
        """Arguments sent to the worker beforehand, so that a call can be timed without their transfer."""
        return StagedCall(self, self.ask(do="stage", args=args, kwargs=kwargs)["value"])


PreparedCall = tuple[Callee, Args, Kwargs]  # a call that is yet to be made: what to call, and the arguments


@dataclass
class Module(Callee):
    """A module of the attempt. Its parameters are mirrored here as leaves once they are assigned.

    What is done to it waits, and goes to the worker together with the first question about it: two processes that take
    turns spend more time on changing turns than on most requests.
    """

    _leaves: dict[str, Tensor] = field(default_factory=dict)
    _waiting: list[Waiting] = field(default_factory=list)

    def later(self, heard: OnAnswer = lambda answer: None, **request: Any) -> None:
        """Have this done before anything is asked; `heard` is then told the answer."""
        self._waiting.append((request, heard))

    def take_waiting(self) -> list[Waiting]:
        waiting, self._waiting = self._waiting, []
        return waiting

    def parameters(self) -> dict[str, Tensor]:
        return self._leaves

    def describe(self) -> Message:
        """Parameters and buffers by name, and the names in the state dict, as the worker has them."""
        return self._ours(self.ask(do="describe", target=self.target))

    def outline(self) -> Message:
        """Shapes of parameters and buffers by name, which are trainable, and a number for each parameter object."""
        return self._ours(self.ask(do="outline", target=self.target))

    def _ours(self, outline: Message) -> Message:
        found = {k: self.renamed(v if isinstance(v, dict) else dict.fromkeys(v)) for k, v in outline.items()}
        return {key: value if isinstance(outline[key], dict) else list(value) for key, value in found.items()}

    def load_state_dict(self, values: dict[str, Tensor], fit: OnAnswer = lambda outline: None) -> Module:
        """Assign values as far as they fit, which `fit` may judge by the outline; their mirrors take gradients."""
        theirs = {self.names.get(name, name): value for name, value in values.items()}
        self.later(lambda outline: fit(self._ours(outline)), do="assign", target=self.target, values=theirs)
        self._leaves = {k: v.detach().clone().requires_grad_(v.is_floating_point()) for k, v in values.items()}
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """`nn.Module.to`, in the worker."""
        self.later(do="cast", target=self.target, args=args, kwargs=kwargs)
        self._leaves = {}
        return self

    def train(self, training: bool = True) -> Module:
        """`nn.Module.train`, in the worker."""
        self.later(do="mode", target=self.target, training=training)
        return self

    def eval(self) -> Module:
        """`nn.Module.eval`, in the worker."""
        return self.train(False)


@dataclass
class StagedCall:
    """A call whose arguments wait in the worker."""

    callee: Callee
    arguments: protocol.Remote
    calls: int = 1  # that are timed at once
    _timed: protocol.Remote | None = None  # what the last timed call gave

    def refill(self, *args: Any, **kwargs: Any) -> None:
        """New content in the very tensors that were prepared."""
        self.callee.ask(do="refill", prepared=self.arguments, args=args, kwargs=kwargs)

    def rescale(self, factor: float) -> None:
        """Multiply the floating tensors that were prepared."""
        self.callee.ask(do="rescale", prepared=self.arguments, factors=factor)

    def go(self, **more: Any) -> protocol.Remote:
        """Make the call; the result stays in the worker."""
        answer = self.callee.ask(do="go", target=self.callee.target, prepared=self.arguments, **more)
        kept: protocol.Remote = answer["value"]
        return kept

    def timed(self, changes: Sequence[Sequence[Tensor]] = ()) -> tuple[float, float, protocol.Remote]:
        """(seconds of work, wall seconds, result kept in the worker) of a call, read from outside.

        Before each of `calls` calls the floating tensors that were prepared are multiplied by these factors, in their
        order, and the clock covers that too: nothing that is done before it starts is of use. The seconds are those of
        one call; the result is the last one's, and is kept until the next timed call.

        Work is processor time. On a GPU, where the processor only waits, it is the wall clock's, and so many calls are
        asked for at once that asking takes little of it.
        """
        worker, attempt, prepared = self.callee.attempt.worker(), self.callee.attempt, self.arguments
        call = {"do": "go", "target": self.callee.target, "prepared": prepared, "instead": self._timed}
        each = [[{"do": "rescale", "prepared": prepared, "factors": list(factors)}, call] for factors in changes]
        asked = [(self.callee, request) for requests in each or [[call]] * self.calls for request in requests]
        cpu, wall = worker.cpu_seconds(), time.perf_counter()
        *_, answer = attempt.ask_each(asked)
        self._timed = answer["value"]
        cpu, wall = (worker.cpu_seconds() - cpu) / self.calls, (time.perf_counter() - wall) / self.calls
        if attempt.device != "cuda":
            return cpu, wall, self._timed
        self.calls = min(MOST_CALLS, math.ceil(READING / wall))
        return wall, wall, self._timed

    def fetch(self, kept: protocol.Remote) -> Any:
        """The result itself, which the worker then lets go."""
        return self.callee.ask(do="fetch", kept=kept)["value"]

    def overwrite_result(self, kept: protocol.Remote) -> None:
        """Overwrite a result in the worker and let it go."""
        self.callee.ask(do="overwrite_result", kept=kept)


class _Call(torch.autograd.Function):
    """A remote call as a node of the judge's graph: its backward is a request to the worker."""

    @staticmethod
    def forward(ctx: Any, callee: Callee, args: Args, kwargs: Kwargs, *sources: Tensor) -> Any:
        reply = callee.request(args, kwargs, grad=True)
        ctx.callee, ctx.call = callee, reply["call"]
        if not isinstance(reply["value"], Tensor):
            raise NoTensor(reply["value"])
        return reply["value"]

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> Any:
        reply = ctx.callee.ask(do="backward", call=ctx.call, cotangents=[cotangent])
        found = ctx.callee.renamed(reply["parameters"])
        own = [found.get(name) for name in ctx.callee.parameters()]
        return (None, None, None, *reply["inputs"], *own)
