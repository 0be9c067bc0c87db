"""What an attempt does while it runs: operations counted, threads watched, devices told apart.

These readings are taken inside the worker, so a determined attempt can falsify them: they are checks of honesty,
while values and processor time are judged from outside.
"""

from __future__ import annotations

import importlib.abc
import inspect
import re
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._autograd import _disable_profiler, _enable_profiler, _prepare_profiler
from torch._C._profiler import ProfilerActivity, ProfilerConfig, ProfilerState, _ExperimentalConfig
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from dojo.judge.protocol import Args, Kwargs, Message

OTHER_FRAMEWORKS = frozenset(
    (
        "scipy jax jaxlib tensorflow keras cupy mlx tinygrad numba theano aesara pytensor paddle mxnet "
        "autograd sklearn onnxruntime openvino mindspore dask pandas transformers peft "
        "tiktoken tokenizers"
    ).split()
)


OF_CUDA = re.compile("cu(da)?[A-Z]")  # what an operation calls on a GPU: `cudaLaunchKernel`, by its shapes


class LeavesTorch(ImportError):
    """The attempt reached for another framework."""


class _Bar(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        framework = name.partition(".")[0]
        if framework in OTHER_FRAMEWORKS and not _asked_by_torch():
            raise LeavesTorch(f"`{framework}` is imported")


def _asked_by_torch() -> bool:
    """Whether the import under way is torch's own look for an optional companion."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename.startswith(_TORCH)


_TORCH = str(Path(torch.__file__).parent)


def bar_other_frameworks() -> None:
    """Make importing any other numeric framework raise `LeavesTorch`."""
    sys.meta_path.insert(0, _Bar())


def leaves_torch(error: BaseException) -> bool:
    """Whether this exception came of leaving PyTorch (torch here was imported deaf to NumPy)."""
    return isinstance(error, LeavesTorch) or "Numpy is not available" in str(error.args)


class _Mode(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch has not annotated it

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # True would import the whole compiler, over a second, at the first operation


class _Count(_Mode):
    def __init__(self) -> None:
        super().__init__()
        self.operations: Counter[str] = Counter()
        self.largest: dict[str, int] = {}
        self.made: dict[str, int] = {}
        self.made_in_all: Counter[str] = Counter()
        self.complex: dict[str, int] = {}
        self.flops = 0
        self.elements = 0
        self.alive = self.peak = 0  # bytes of what was made since, and is held
        self.held: dict[int, weakref.ref[Any]] = {}

    def hold(self, tensor: Tensor, size: int) -> None:
        """Count the memory of a tensor until nobody holds it any more."""
        storage = tensor.untyped_storage()
        place = storage._cdata

        def released(_: Any) -> None:
            self.alive -= size
            del self.held[place]

        if place not in self.held:
            self.held[place] = weakref.ref(storage, released)
            self.alive += size
            self.peak = max(self.peak, self.alive)

    def __torch_dispatch__(self, func: Any, types: Any, args: Args = (), kwargs: Kwargs | None = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        name = name if func.namespace == "aten" else f"{func.namespace}::{name}"
        self.operations[name] += 1
        if func.overloadpacket in flop_registry:
            self.flops += flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=result)
        fresh = not any(each.alias_info for each in func._schema.returns)  # neither a view nor written in place
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                # Bytes of storage, not elements: an expanded view costs nothing however large it looks.
                real = tensor.layout is torch.strided and not tensor.is_meta
                size = tensor.untyped_storage().nbytes() if real else 0
                self.largest[name] = max(self.largest.get(name, 0), size)
                if fresh:
                    self.made[name] = max(self.made.get(name, 0), size)
                    self.made_in_all[name] += size
                    if size:
                        self.hold(tensor, size)
                self.elements += tensor.numel() if size else 0
                if tensor.is_complex():
                    self.complex[name] = max(self.complex.get(name, 0), tensor.numel())
        return result


class _Foreign(TorchFunctionMode):
    """Notes arrays of another framework among the arguments of torch's functions."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_function__(self, func: Any, types: Any, args: Args = (), kwargs: Kwargs | None = None) -> Any:
        for value in tree_leaves((args, kwargs)):
            if type(value).__name__ == "ndarray" or type(value).__module__.partition(".")[0] in OTHER_FRAMEWORKS:
                self.seen.add(f"{type(value).__module__}.{type(value).__name__}")
        return func(*args, **(kwargs or {}))


class Counting:
    """Operations as the dispatcher saw them, in this thread, below autograd, vmap and TorchScript."""

    def __init__(self) -> None:
        self.mode, self.foreign = _Count(), _Foreign()

    def report(self) -> dict[str, Any]:
        return {
            "operations": dict(self.mode.operations),
            "largest": self.mode.largest,
            "made": self.mode.made,
            "made_in_all": dict(self.mode.made_in_all),
            "complex": self.mode.complex,
            "flops": self.mode.flops,
            "elements": self.mode.elements,
            "peak": self.mode.peak,
            "foreign": sorted(self.foreign.seen),
        }


@contextmanager
def counting() -> Iterator[Counting]:
    """Count every operation that this thread dispatches."""
    count = Counting()
    with count.foreign, count.mode:
        yield count


class Watching:
    """How often any thread ran each operation, those within others too, and the watched functions entered."""

    def __init__(self) -> None:
        self.profiled: Counter[str] = Counter()
        self.entered: set[str] = set()

    def report(self) -> dict[str, Any]:
        return {"profiled": dict(self.profiled), "entered": sorted(self.entered)}


@contextmanager
def watching(functions: list[str]) -> Iterator[Watching]:
    """Profile all threads, and note which of these functions (`torch.nn.functional.softmax`) run as Python code."""
    seen = Watching()
    codes = {code: name for name in functions for code in _codes(name)}

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call" and frame.f_code in codes:
            seen.entered.add(codes[frame.f_code])

    everywhere = _ExperimentalConfig(profile_all_threads=True)
    config = ProfilerConfig(ProfilerState.KINETO, False, False, False, False, False, everywhere)
    _prepare_profiler(config, {ProfilerActivity.CPU})
    _enable_profiler(config, {ProfilerActivity.CPU})
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield seen
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        names = (event.name() for event in _disable_profiler().events())
        seen.profiled = Counter(name for name in names if not OF_CUDA.match(name))


def _codes(name: str) -> list[Any]:
    """The code behind a dotted name, without its decorators; for a module class, that of its `forward`."""
    value: Any = sys.modules["torch"]
    path = name.split(".")
    for depth, part in enumerate(path[1:], 2):
        # torch loads some of itself on demand, and takes the names of some modules away.
        value = getattr(value, part, None) or sys.modules.get(".".join(path[:depth]))
    if isinstance(value, type) and issubclass(value, nn.Module):
        value = value.forward
    value = inspect.unwrap(value)
    return [value.__code__] if hasattr(value, "__code__") else []


# A second device on a machine that has one: tensors that live on the CPU, say that they do not, and refuse to meet
# those that do. `meta` is the only device type that every build of torch has and that needs no initialisation.
FAKE_DEVICE = torch.device("meta")
_aten = torch.ops.aten
_MAY_MIX = {_aten.copy_.default, _aten.set_.source_Tensor, _aten.index_put_.default, _aten.index_put.default}


class MixedDevices(RuntimeError):
    """Two tensors of different devices met in one operation."""


class FakeDeviceTensor(Tensor):
    elem: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> FakeDeviceTensor:
        inner = inner.resolve_conj().resolve_neg()  # whether it is to be conjugated does not show in a wrapper
        self = Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=FAKE_DEVICE, requires_grad=False
        )
        self.elem = inner
        return self

    def __repr__(self) -> str:  # type: ignore[override]  # torch's takes keywords, and would never come to an end here
        return repr(self.elem)

    def tolist(self) -> Any:
        return self.elem.tolist()  # torch's own refuses every wrapper

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]  # its stub takes no class

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's stub leaves out the operation
        cls, func: Any, types: Any, args: Args = (), kwargs: Kwargs | None = None
    ) -> Any:
        return _run_on_fake_device(func, args, kwargs or {})


class FakeDeviceMode(_Mode):
    def __torch_dispatch__(self, func: Any, types: Any, args: Args = (), kwargs: Kwargs | None = None) -> Any:
        return _run_on_fake_device(func, args, kwargs or {})


def _run_on_fake_device(func: Any, args: Args, kwargs: Kwargs) -> Any:
    tensors = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    theirs = [t for t in tensors if isinstance(t, FakeDeviceTensor)]
    target = kwargs.get("device")
    if target is None:
        # A 0-dim tensor of the CPU may join any device, and so may CPU indices into a tensor that lives elsewhere.
        indexing = func is _aten.index.Tensor and isinstance(args[0], FakeDeviceTensor)
        # `torch.tensor(…, device=…)` goes past us and gives a true meta tensor: what meets it cannot be told from here.
        strangers = [t for t in tensors if not isinstance(t, FakeDeviceTensor) and t.dim() > 0 and not t.is_meta]
        if theirs and strangers and not indexing and func not in _MAY_MIX:
            raise MixedDevices(f"{func.overloadpacket.__name__} met tensors of two devices")
        away = bool(theirs) if func not in _MAY_MIX else isinstance(args[0], FakeDeviceTensor)
    else:
        away = torch.device(target).type == FAKE_DEVICE.type
        kwargs = kwargs | {"device": torch.device("cpu")} if away else kwargs
    inner_args, inner_kwargs = tree_map(lambda v: v.elem if isinstance(v, FakeDeviceTensor) else v, (args, kwargs))
    result = func(*inner_args, **inner_kwargs)
    if not away:
        return result
    result = tree_map(lambda v: FakeDeviceTensor(v) if isinstance(v, Tensor) else v, result)
    return return_and_correct_aliasing(func, args, kwargs, result) if theirs else result


def call_on_fake_device(
    callee: Callable[..., Any], args: Args, kwargs: Kwargs, explain: Callable[[BaseException], Message]
) -> Message:
    """Move a module and every tensor argument elsewhere and call it.

    `mixed` says which two devices met, or is None, and `where` explains the exception; `placed` is whether the result
    came out there, None when that cannot be told: any other exception is no finding, for it may be our make-believe
    device that is at fault.
    """
    try:
        with torch.no_grad(), FakeDeviceMode():
            if isinstance(callee, nn.Module):
                callee.to(FAKE_DEVICE)
            args, kwargs = tree_map(lambda v: v.to(FAKE_DEVICE) if isinstance(v, Tensor) else v, (args, kwargs))
            result = callee(*args, **kwargs)
            true_meta = isinstance(result, Tensor) and result.is_meta and not isinstance(result, FakeDeviceTensor)
            placed = None if true_meta else isinstance(result, FakeDeviceTensor)
            return {"mixed": None, "where": None, "placed": placed}
    except MixedDevices as error:
        return {"mixed": str(error), "where": explain(error), "placed": None}
    except Exception:
        return {"mixed": None, "where": None, "placed": None}
