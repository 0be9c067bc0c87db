"""The worker's side of the channel: loads the attempt, runs what the judge asks for, sends back what came of it.

It holds no expected value, no oracle, no verdict and no seed; all it could betray is the attempt itself.
"""

from __future__ import annotations

import linecache
import pickle
import sys
import types
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dojo.judge import answers, precision, protocol
from dojo.judge.protocol import Args, Kwargs, Message, floating_in
from dojo.judge.worker import arrays, gpu, trial
from dojo.judge.worker.drivers import ADAPTERS, DRIVERS
from dojo.judge.worker.errors import explain
from dojo.judge.worker.ranks import Group, World
from dojo.judge.worker.readings import instrumentation
from dojo.judge.worker.readings.global_state import global_state, settle, watched
from dojo.judge.worker.readings.modules import assign, describe, outline
from dojo.verdict.failures import no_answer, no_tensor

GRAPHS_KEPT = 64


class Unanswerable(Exception):
    """The attempt gave back what is no answer: `sentence` says what."""


class Session:
    """One attempt, loaded, and the objects and calls that the judge still refers to."""

    def __init__(self, config: Message, hide: trial.Hide | None = None) -> None:
        self.filename: str = config["filename"]
        self.files: dict[str, str] = {self.filename: self.filename}  # the attempt's own, and what to call each
        self.module: types.ModuleType | None = None
        self.objects: dict[int, Any] = {}
        self.calls: dict[int, tuple[list[Tensor], dict[str, nn.Parameter], Any]] = {}
        self.next = 0
        self.fill: Callable[[dict[str, Any]], object] = lambda names: None  # what defines the attempt's names
        self.group: Group | None = None  # of the ranks, where this is one of them
        self.worlds: dict[int, tuple[World, list[Session]]] = {}  # by how many ranks there are
        self.trial = trial.Trial(hide)

    def number(self) -> int:
        self.next += 1
        return self.next

    def load(self, source: str, name: str = "attempt") -> Message:
        """Run the attempt's file, as a script if its name is `__main__`; its names then are what `call` may reach."""
        self.remember(self.filename, source)
        return self.loading(lambda names: exec(compile(source, self.filename, "exec"), names), name)

    def unpack(self, pickled: Tensor, cells: list[tuple[str, str, str]]) -> Message:
        """Take in what a notebook's kernel has defined, pickled; its cells are (file name, label, source)."""
        for filename, label, source in cells:
            self.remember(filename, source)
            self.files[filename] = label
        return self.loading(lambda names: names.update(pickle.loads(bytes(pickled.tolist()))))

    def remember(self, filename: str, source: str) -> None:
        """Let tracebacks and TorchScript find a source. Without a time stamp it is never looked for on the disk."""
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)

    def loading(self, fill: Callable[[dict[str, Any]], object], name: str = "attempt") -> Message:
        """Make the module of the attempt; of one that was here before nothing stays."""
        if self.module is not None:
            self.objects.clear()
            self.calls.clear()
            self.worlds.clear()
            settle()
            torch.set_grad_enabled(True)
        module = types.ModuleType(name)
        module.__file__ = self.filename
        module.__dict__.update(self.trial.given)
        sys.modules[name] = module
        fill(module.__dict__)
        precision.full()  # a script for training may ask for less at its head
        self.module, self.fill = module, fill
        self.loaded = global_state()
        return {"names": [name for name in vars(module) if not name.startswith("__") or name == "__getattr__"]}

    def resolve(self, target: Any) -> Any:
        if isinstance(target, protocol.Remote):
            return self.objects[target.number]
        if isinstance(target, list):
            adapter, inner = target
            return ADAPTERS[adapter](self.resolve(inner))
        if not hasattr(self.module, target):
            raise Unanswerable(f"the attempt defines no `{target}`")
        return getattr(self.module, target)

    def here(self, value: Any) -> Any:
        """What an argument stands for."""
        if isinstance(value, protocol.Group):
            return self.group or value
        return self.resolve(value) if isinstance(value, protocol.Remote) else value

    def call(
        self,
        target: Any,
        args: Args,
        kwargs: Kwargs,
        grad: bool = False,
        watch: bool = False,
        watch_grad: bool = True,
        method: str = "",
    ) -> Message:
        """Call a function, a class, a kept object or a method of one; a module that comes back is kept here.

        With `watch` the answer says what the call has changed; `watch_grad` is the grad mode that it must leave.
        """
        function = self.resolve(target)
        function = getattr(function, method) if method else function
        given = args, kwargs
        args, kwargs = protocol.mapped(self.here, given)
        leaves = [t for t in protocol.tensors_in([args, kwargs]) if t.requires_grad]
        reply: Message = {}
        watching = watched(self.loaded) if watch else nullcontext(list[str]())
        with torch.set_grad_enabled(grad or (watch and watch_grad)), watching as changed:
            result = function(*args, **kwargs)
        if watch:
            reply["changed"] = changed if protocol.same_plain(given, (args, kwargs)) else [*changed, protocol.ARGUMENTS]
            reply["inputs"] = [t.detach() for t in protocol.tensors_in([args, kwargs])]
        if grad:
            if not all(t.requires_grad for t in leaves):
                raise Unanswerable("an input that required a gradient before the call no longer does")
            number = self.number()
            parameters = dict(nn.Module.named_parameters(function)) if isinstance(function, nn.Module) else {}
            self.calls[number] = (leaves, parameters, result)
            self.calls.pop(number - GRAPHS_KEPT, None)
            reply["call"] = number
        return reply | {"value": self.outgoing(result)}

    def outgoing(self, result: Any) -> Any:
        """What the judge is sent for `result`: plain tensors and plain values only, anything else stays here."""
        if isinstance(result, arrays.Arrays):
            result = result.as_tensors()
        if isinstance(result, nn.Module):
            number = self.number()
            self.objects[number] = result
            return protocol.Remote(number)
        if isinstance(result, Tensor):
            if type(result) not in (Tensor, nn.Parameter):
                raise Unanswerable(f"the result is a {type(result).__name__}, not a plain torch.Tensor")
            return result.detach()
        if isinstance(result, (tuple, list)):
            return (tuple if isinstance(result, tuple) else list)(self.outgoing(item) for item in result)
        if isinstance(result, dict):
            return {str(key): self.outgoing(value) for key, value in result.items()}
        if result is None or type(result) in (bool, int, float, str):
            return result
        raise Unanswerable(no_answer(result))

    def backward(self, call: int, cotangents: list[Tensor]) -> Message:
        """The vector-Jacobian products of a call with `grad`, for its inputs and the parameters of its module.

        The floating tensors of its result have a cotangent each, in their order.
        """
        leaves, parameters, result = self.calls[call]
        frozen = {name: None for name, value in parameters.items() if not value.requires_grad}
        parameters = {name: value for name, value in parameters.items() if name not in frozen}
        sources = [*leaves, *parameters.values()]
        # A scalar needs no grad_outputs, for which torch would first import half a second of symbolic shapes.
        with torch.enable_grad():
            pairs = zip(floating_in(result), cotangents, strict=True)
            parts = [(each * cotangent).sum() for each, cotangent in pairs if each.requires_grad]
            total = sum(parts[1:], parts[0]) if parts else None
        if total is None:
            return {"inputs": [None] * len(leaves), "parameters": dict.fromkeys(parameters) | frozen}
        grads = torch.autograd.grad(total, sources, allow_unused=True, retain_graph=True)
        own = dict(zip(parameters, grads[len(leaves) :], strict=True))
        return {"inputs": list(grads[: len(leaves)]), "parameters": own | frozen}

    def forward_backward(
        self, target: Any, args: Args, kwargs: Kwargs, cotangents: list[Tensor] | None = None
    ) -> Message:
        """A call, and the vector-Jacobian products of its result, for the floating inputs and for the parameters.

        Without cotangents they are ones. A result that they do not fit comes back alone.
        """
        leaves = [t.requires_grad_() for t in floating_in([args, kwargs])]
        reply = self.call(target, args, kwargs, grad=True)
        value, made = reply["value"], floating_in(reply["value"])
        if not made:
            raise Unanswerable(no_tensor(value))
        cotangents = [torch.ones_like(each) for each in made] if cotangents is None else cotangents
        if [each.shape for each in cotangents] != [each.shape for each in made]:
            return reply | {"inputs": [None] * len(leaves), "gradients": {}}
        found = self.backward(reply["call"], [c.to(each.dtype) for c, each in zip(cotangents, made, strict=True)])
        self.calls.pop(reply["call"], None)
        return {"value": value, "inputs": found["inputs"], "gradients": found["parameters"]}

    def build(self, target: str, args: Args, kwargs: Kwargs, kept: protocol.Remote) -> Message:
        """Build a module and keep it under the number that the judge has chosen."""
        args, kwargs = protocol.mapped(self.here, (args, kwargs))
        with torch.no_grad():
            module = self.resolve(target)(*args, **kwargs)
        if not isinstance(module, nn.Module):
            raise Unanswerable(f"`{target}` is a torch.nn.Module: calling it gave a {type(module).__name__}")
        self.objects[kept.number] = module
        return {}

    def drive(self, target: Any, driver: Callable[..., Message], watch: bool = False, **more: Any) -> Message:
        """Hand what is under judgement to a function of ours; what is kept here may be among the other arguments."""
        more = protocol.mapped(self.here, more)
        with watched(self.loaded) if watch else nullcontext() as changed:
            found = driver(self.resolve(target), **more)
        found = found | {"changed": changed, "inputs": []} if watch else found
        return {name: self.outgoing(value) for name, value in found.items()}

    def ranks(self, size: int, inner: list[Message]) -> Message:
        """Have each of so many ranks do its request. As in processes of their own, each has the file run for itself."""
        if size not in self.worlds:
            world = World(size)
            self.worlds[size] = world, [self._one_of(world, rank) for rank in range(size)]
        world, ranks = self.worlds[size]
        found = world.run([partial(rank.perform, {**request}) for rank, request in zip(ranks, inner, strict=True)])
        return {"ranks": found, "calls": world.calls}

    def _one_of(self, world: World, rank: int) -> Session:
        """A rank, which numbers its objects as the others do, and as nobody else."""
        made = Session({"filename": self.filename})
        made.files, made.group, made.next = self.files, Group(world, rank), world.size << 32
        made.loading(self.fill)
        return made

    def read(self, target: protocol.Remote, name: str) -> Message:
        """An attribute of a kept object."""
        return {"value": self.outgoing(getattr(self.objects[target.number], name))}

    def cast(self, target: protocol.Remote, args: Args, kwargs: Kwargs) -> Message:
        """`model.to(...)` on a model that holds this module, which an override of `to` alone would never hear of.

        A dtype is that of what is real, as in `model.half()`: `to` would take the imaginary part of complex tables.
        """
        holder = nn.ModuleList([self.objects[target.number]])
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        if device is not None:
            holder.to(device)
        if dtype is not None:
            holder._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)
        return {}

    def mode(self, target: protocol.Remote, training: bool) -> Message:
        self.objects[target.number].train(training)
        return {}

    def observe(self, inner: list[Message], watched: list[str] | None, counted: bool = True) -> Message:
        """Do all of `inner` once with operations counted, and once with every thread watched; None watches nothing.

        What comes back is the answer to the last of them, with the readings.
        """
        handlers = [self._handler(each) for each in inner]

        def calls() -> Message:
            return [handler() for handler in handlers][-1]

        answers, count, seen = [], instrumentation.Counting(), instrumentation.Watching()
        if counted:
            with instrumentation.counting() as count:
                answers.append(calls())
        if watched is not None:
            with instrumentation.watching(watched) as seen:
                answers.append(calls())
        return answers[0] | {"readings": count.report() | seen.report()}

    def fake_device(self, target: Any, args: Args, kwargs: Kwargs) -> Message:
        """Call on a device of our own making, to see what stays behind on the CPU."""
        explained = partial(explain, files=self.files)
        return instrumentation.call_on_fake_device(self.resolve(target), args, kwargs, explained)

    def stage(self, args: Args, kwargs: Kwargs) -> Message:
        """Keep arguments here, for `go`; the tensors of a second `stage` go into the storage of the first."""
        self.objects[number := self.number()] = (args, kwargs)
        return {"value": protocol.Remote(number)}

    def refill(self, prepared: protocol.Remote, args: Args, kwargs: Kwargs) -> Message:
        """New content for prepared arguments, in the same tensor objects."""
        with torch.no_grad():
            kept = protocol.tensors_in(list(self.objects[prepared.number]))
            for old, new in zip(kept, protocol.tensors_in([args, kwargs]), strict=True):
                old.copy_(new)
        return {}

    def rescale(self, prepared: protocol.Remote, factors: float | list[Tensor]) -> Message:
        """Multiply the floating tensors of prepared arguments in place, all by one factor or each by its own."""
        found = protocol.floating_in(list(self.objects[prepared.number]))
        factors = factors if isinstance(factors, list) else [torch.tensor(factors)] * len(found)
        with torch.no_grad():
            for each, factor in zip(found, factors, strict=True):
                each.mul_(factor.to(each.device))
            if any(each.is_cuda for each in found):
                gpu.flush_cache()
        return {}

    def go(
        self,
        target: Any,
        prepared: protocol.Remote,
        instead: protocol.Remote | None = None,
        method: str = "",
        grad: bool = True,
    ) -> Message:
        """Call with prepared arguments and keep the result here, so that only the work itself is timed.

        It is kept `instead` of the result of an earlier call, if that is named. Without a graph, which `grad` says, a
        buffer can be handed out again.
        """
        if instead is not None:
            self.objects.pop(instead.number, None)
        args, kwargs = protocol.mapped(self.here, self.objects[prepared.number])
        function = self.resolve(target)
        with torch.set_grad_enabled(grad):
            result = (getattr(function, method) if method else function)(*args, **kwargs)
        number = instead.number if instead is not None else self.number()
        self.objects[number] = result
        return {"value": protocol.Remote(number)}

    def fetch(self, kept: protocol.Remote) -> Message:
        return {"value": self.outgoing(self.objects.pop(kept.number))}

    def overwrite_result(self, kept: protocol.Remote) -> Message:
        """Overwrite a kept result, as its owner may."""
        result = self.objects.pop(kept.number)
        if isinstance(result, arrays.Arrays):
            result.overwrite()
        with torch.no_grad():
            for each in protocol.tensors_in(result):
                each.zero_()
        if isinstance(result, list):
            result.clear()
        return {}

    def _handler(self, request: Message) -> Callable[[], Message]:
        operation = HANDLERS[request.pop("do")]
        return lambda: operation(self, **request)

    def perform(self, request: Message) -> Message:
        """Do what `request` says; the attempt's exceptions pass through."""
        return self._handler(request)()

    def answers(self, requests: list[Message]) -> list[Message]:
        """Do one after the other, up to the first that fails."""
        found: list[Message] = []
        for request in requests:
            found.append(self.answer(request))
            request.clear()  # a test must not find the program that it judges
            if answers.failure(found[-1]):
                break
        return found

    def answer(self, request: Message) -> Message:
        """Do what `request` says; whatever the attempt raises becomes part of the answer."""
        try:
            found = self.perform(request)
            gpu.synchronize()  # what goes wrong on a GPU is raised here, and not at some later request
            return found
        except Unanswerable as error:
            return {"unanswerable": str(error)}
        except BaseException as error:
            self.trial.end()
            if instrumentation.leaves_torch(error):
                return {"forbidden": str(error), "raised": explain(error, self.files)}
            return {"raised": explain(error, self.files)}


REQUESTS = """
    load unpack build call ranks read backward forward_backward cast mode observe fake_device
    stage refill rescale go fetch overwrite_result
"""

HANDLERS: dict[str, Callable[..., Message]] = {name: getattr(Session, name) for name in REQUESTS.split()}
HANDLERS |= {each.__name__: partial(Session.drive, driver=each) for each in DRIVERS} | trial.REQUESTS


def _about(function: Callable[..., Message]) -> Callable[..., Message]:
    """What answers a request by a function of a module that is kept here."""
    return lambda session, target, **more: function(session.resolve(target), **more)


HANDLERS |= {each.__name__: _about(each) for each in (describe, outline, assign)}
