"""Whether a master is written as a lab would merge it: the right answer may still hold back a compiler or a GPU.

Each idiom is a function of a `Subject` that says what it saw, or nothing; its docstring says what it is good for. No
attempt is asked any of this: it is for who writes a master.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from traceback import walk_stack, walk_tb
from types import FrameType
from typing import Any
from unittest import mock

import torch
import torch._dynamo
from torch import Tensor, nn
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo.utils import counters
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from dojo.content import catalog
from dojo.contracts import Call, Contract, Draw, GeneratorContract, bare
from dojo.contracts.checks.ranks import share_of
from dojo.judge.worker.drivers import ADAPTERS
from dojo.judge.worker.readings.instrumentation import FAKE_DEVICE, FakeDeviceMode, FakeDeviceTensor

SEED = 20261124
HALF_IS_GRADED = "test_half_precision_is_computed_in_float32"  # None where the contract has it off


@dataclass(frozen=True)
class Subject:
    """A callable of a master and one call of it; `make` gives the function, or a new module, on a device.

    A call is `alike` where one before it was given the same arguments, and differs in sizes or dtype alone.
    """

    file: Path
    label: str
    make: Callable[[Any], Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    alike: bool = False

    def run(self, callee: Callable[..., Any], change: Callable[[Tensor], Tensor] = lambda t: t) -> Any:
        """The result of the call, its tensors changed."""
        args, kwargs = tree_map(lambda v: change(v) if isinstance(v, Tensor) else v, (self.args, self.kwargs))
        with torch.no_grad():
            return callee(*args, **kwargs)

    def at(self, lines: Iterable[tuple[str, int | None]]) -> str:
        """The last of these lines that is the master's, as `rope.py:120: `; nothing where none is."""
        own = [line for file, line in lines if file == str(self.file)]
        return f"{self.file.name}:{own[-1]}: " if own else ""

    def here(self) -> str:
        """The same of what runs now."""
        return self.at(reversed([*map(_place, walk_stack(sys._getframe(1)))]))


def _place(step: tuple[FrameType, int]) -> tuple[str, int]:
    frame, line = step
    return frame.f_code.co_filename, line


def no_graph_break(subject: Subject) -> str:
    """Each break ends a compiled graph: kernels are not fused across it, and CUDA graphs do not capture it."""
    torch._dynamo.reset()
    counters.clear()
    callee, graphs = subject.make(None), []

    def keep(graph: Any, inputs: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    subject.run(torch.compile(callee, backend=keep))
    # Where a loop breaks, its frame is dropped without a reason, and what it calls may still be one graph.
    traced = _debug_get_cache_entry_list(getattr(callee, "forward", callee).__code__)
    torch._dynamo.reset()
    if traced and len(graphs) == 1 and not graphs[0].compile_subgraph_reason.graph_break:
        return ""
    if not graphs and counters["frames"]["total"] == counters["frames"]["ok"] > 0:
        return ""  # a call without operations, as one in evaluation may be
    breaks = [each.compile_subgraph_reason for each in graphs if each.compile_subgraph_reason.graph_break]
    reasons = [
        subject.at((frame.filename, frame.lineno) for frame in each.user_stack) + each.reason.partition("\n")[0]
        for each in breaks
    ]
    return "; ".join([f"{len(graphs)} graphs", *dict.fromkeys(reasons or ["it breaks within a loop"])])


def no_wait(subject: Subject) -> str:
    """A GPU runs behind the processor: who asks for a value, or for a shape that hangs on values, drains its queue."""
    callee, waits = subject.make(None), _Waits(subject)
    with waits, waits.methods:
        subject.run(callee)
    return f"waits for values: {', '.join(dict.fromkeys(waits.seen))}" if waits.seen else ""


def fake_tensors(subject: Subject) -> str:
    """torch.export, compilers and planners of memory run a model on shapes alone."""
    callee = subject.make(None)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        subject.run(callee, mode.from_tensor)
    return ""


def meta_device(subject: Subject) -> str:
    """A model that fills a node is built without memory, then sharded, then loaded: FSDP, torchtitan and Hugging Face
    build it so. What no state dict holds must be filled by `reset_parameters`, as in torch.nn's own modules.
    """
    straight = subject.make(None)
    if not isinstance(straight, nn.Module):
        return ""
    with torch.device("meta"):
        module = subject.make(None)
    module.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in (*module.parameters(), *module.buffers()):
            if tensor.is_floating_point() or tensor.is_complex():
                tensor.fill_(torch.nan)  # what memory holds that nobody has filled
    for each in module.modules():
        if hasattr(each, "reset_parameters"):
            each.reset_parameters()
    module.load_state_dict(straight.state_dict())
    for got, expected in zip(tree_leaves(subject.run(module)), tree_leaves(subject.run(straight)), strict=True):
        if not torch.allclose(got, expected, equal_nan=True):
            return "after to_empty(), reset_parameters() and load_state_dict() it gives other values"
    return ""


def no_float64(subject: Subject) -> str:
    """MPS and most TPUs have no float64, and a GPU computes it at 1/2 to 1/64 of the speed of float32."""
    with _RefusesFloat64():
        subject.run(subject.make(FAKE_DEVICE), lambda t: t.to(FAKE_DEVICE))
    return ""


def no_assignment(subject: Subject) -> str:
    """torch.compile, CUDA graphs, checkpointing and two threads that serve one model take a forward for a function."""
    module = subject.make(None)
    if not isinstance(module, nn.Module):
        return ""
    before = _held(module)
    with _assignments(subject) as assigned:
        subject.run(module)
    changed = {name for name, value in _held(module).items() if before.get(name) != value}
    seen = sorted({*assigned} | changed)
    return f"a forward assigns {', '.join(seen)}" if seen else ""


IDIOMS: dict[str, Callable[[Subject], str]] = {
    "no graph break": no_graph_break,
    "no wait for the device": no_wait,
    "fake tensors": fake_tensors,
    "meta device": meta_device,
    "no float64 on a device": no_float64,
    "no attribute assigned": no_assignment,
}
TRACED = (no_graph_break, fake_tensors)  # dear, and blind to sizes

# What a master does not keep today, and why. The table only shrinks: who mends a master takes its lines out.
EXEMPT: dict[str, dict[str, str]] = {
    "moe": dict.fromkeys(
        ("no graph break", "no wait for the device", "fake tensors"),
        "each expert takes its tokens by nonzero: grouped_mm knows no float64",
    ),
}


def faults(kata: catalog.Kata) -> list[str]:
    """What is to be mended: idioms that a master does not keep, and exemptions that it no longer needs."""
    seen, exempt, where = broken(kata), EXEMPT.get(kata.name, {}), kata.say(kata.master)
    needless = [f"{where}: {idiom}: it is kept, take it out of EXEMPT" for idiom in exempt if idiom not in seen]
    return needless + [f"{where}: {idiom}: {what}" for idiom, what in seen.items() if idiom not in exempt]


def broken(kata: catalog.Kata) -> dict[str, str]:
    """The idioms that a kata's master does not keep, each with the first call that shows it, and what is seen."""
    found: dict[str, str] = {}
    for subject in subjects(kata):
        for idiom, check in IDIOMS.items():
            if idiom not in found and not (subject.alike and check in TRACED) and (seen := ask(check, subject)):
                found[idiom] = f"{subject.label}: {seen}"
    return found


def ask(check: Callable[[Subject], str], subject: Subject) -> str:
    """What an idiom's check sees, an exception too."""
    try:
        return check(subject)
    except Exception as error:
        at = subject.at(map(_place, walk_tb(error.__traceback__)))
        return f"{at}{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def subjects(kata: catalog.Kata) -> Iterator[Subject]:
    """The callables of a kata that take or make tensors, each with its ordinary calls and one in bfloat16."""
    master = catalog.load(kata.master)
    sys.modules[master.__name__] = master  # where dynamo looks for a class of it
    for contract in vars(catalog.load(kata.grader)).values():
        if not (inspect.isclass(contract) and isinstance(getattr(contract, "name", None), str)):
            continue
        if issubclass(contract, Contract) and contract.in_numpy:
            continue  # nothing of torch runs
        if issubclass(contract, Contract):
            yield from _of_tensors(contract, getattr(master, contract.name))
        elif issubclass(contract, GeneratorContract) and contract.makes_tensor:
            yield _of_numbers(contract, getattr(master, contract.name))
    for name, made in vars(master).items():
        if inspect.isclass(made) and issubclass(made, torch.optim.Optimizer):
            yield Subject(kata.master, f"the first step of {name}", partial(_step, made))


def _of_tensors(contract: type[Contract], target: Any) -> Iterator[Subject]:
    calls = {f"case `{case}`": make(Draw(SEED)) for case, make in contract.cases.items()}
    if getattr(contract, HALF_IS_GRADED) and torch.bfloat16 in contract.half:
        calls |= {f"{case} in bfloat16": call.cast(torch.bfloat16) for case, call in [next(iter(calls.items()))]}
    seen: set[frozenset[str]] = set()
    if contract.through:  # but what only sets a mode around the callable is no part of it
        target = inspect.unwrap(ADAPTERS[contract.through](target))
    for case, call in calls.items():
        args, kwargs = contract.signature.call(call.inputs)
        if len(args) < contract.signature.required:
            continue  # the rest of them is made in the worker
        args, kwargs = share_of((args, kwargs), 0)
        given = frozenset(name for name, value in call.inputs.items() if value is not None)
        make = _maker(contract, target, call)
        yield Subject(contract.master, f"{contract.name}, {case}", make, args, kwargs, given in seen)
        seen.add(given)


def _maker(contract: type[Contract], target: Any, call: Call) -> Callable[[Any], Any]:
    if not isinstance(target, type):
        return lambda device: target
    args, kwargs = contract.signature.construction(call.init)
    dtypes = [t.dtype for t in tree_leaves((call.params, call.inputs)) if isinstance(t, Tensor)]
    dtype = next((each for each in dtypes if each.is_floating_point), torch.float32)
    takes = inspect.signature(target).parameters

    def make(device: Any) -> nn.Module:
        placed = {name: value for name, value in {"device": device, "dtype": dtype}.items() if name in takes}
        made = target(*args, **kwargs, **placed)
        made = made if "dtype" in takes else made.to(dtype)  # else it would cast tables
        return made.to(device).train(contract().trains(call))

    return make


def _of_numbers(contract: type[GeneratorContract], target: Callable[..., Any]) -> Subject:
    calls = next(iter(contract.claims.values()))
    call = next(iter(calls(Draw(SEED)) if callable(calls) else calls))
    return Subject(contract.master, f"{contract.name}{call}", lambda device: target, *contract().given(call))


def _step(made: Callable[..., torch.optim.Optimizer], device: Any) -> Callable[[], Any]:
    weights = [nn.Parameter(torch.ones(shape, device=device)) for shape in ((3, 2), (5,))]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    return made(weights).step


_aten = torch.ops.aten
_BY_VALUES = {
    _aten._local_scalar_dense, _aten.nonzero, _aten.masked_select, _aten.equal, _aten.bincount, _aten._unique2,
    _aten.unique_dim, _aten.unique_consecutive,
}  # fmt: skip


class _Waits(TorchDispatchMode):
    """Notes what makes the processor wait for a GPU."""

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject = subject
        self.seen: list[str] = []
        self.methods = _ToTheHost(subject, self.seen)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet, kwargs = func.overloadpacket, kwargs or {}
        repeats = func is _aten.repeat_interleave.Tensor and kwargs.get("output_size") is None
        if repeats or packet in _BY_VALUES or _by_mask(packet, args):
            self.seen.append(f"{self.subject.here()}{packet.__name__}{' by a mask' * _by_mask(packet, args)}")
        return func(*args, **kwargs)


def _by_mask(packet: Any, args: Sequence[Any]) -> bool:
    """Whether this is indexing whose shape hangs on a mask; one value is written where it is True without a look."""
    if packet not in (_aten.index, _aten.index_put, _aten.index_put_):
        return False
    masked = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return masked and (packet is _aten.index or args[2].numel() > 1)


class _ToTheHost(TorchFunctionMode):
    """Notes methods that copy to the host, which no operation shows on the CPU."""

    def __init__(self, subject: Subject, seen: list[str]) -> None:
        super().__init__()
        self.subject, self.seen = subject, seen

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (Tensor.cpu, Tensor.numpy, Tensor.tolist):
            self.seen.append(f"{self.subject.here()}{func.__name__}")
        return func(*args, **(kwargs or {}))


class _RefusesFloat64(FakeDeviceMode):
    """The make-believe device, without float64 as MPS is."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = super().__torch_dispatch__(func, types, args, kwargs)
        for made in tree_leaves(result):
            if isinstance(made, FakeDeviceTensor) and made.dtype in (torch.float64, torch.complex128):
                raise TypeError(f"{func.overloadpacket.__name__} makes a {bare(made.dtype)} on the device")
        return result


def _held(module: nn.Module) -> dict[str, tuple[int, int]]:
    """What the modules hold besides tensors of their own: which object, and the length of a table."""
    return {
        f"{path or type(each).__name__}.{name}": (id(value), len(value) if isinstance(value, (dict, list, set)) else 0)
        for path, each in module.named_modules()
        for name, value in vars(each).items()
    }


@contextmanager
def _assignments(subject: Subject) -> Iterator[list[str]]:
    """The attributes of modules that are assigned meanwhile, to the same value too."""
    seen: list[str] = []
    plain = nn.Module.__setattr__

    def noted(module: nn.Module, name: str, value: Any) -> None:
        seen.append(f"{subject.here()}{type(module).__name__}.{name}")
        plain(module, name, value)

    with mock.patch.object(nn.Module, "__setattr__", noted):
        yield seen
