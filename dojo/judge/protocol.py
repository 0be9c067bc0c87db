"""Messages between judge and worker: a JSON header and raw tensor bytes, both bounded.

Nothing here can run code on the reading side: numbers, strings, lists, mappings and plain tensors are all
there is. Strides travel too, so that an expanded or transposed input arrives as one.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

HEADER_LIMIT = 4 << 20
PAYLOAD_LIMIT = 1 << 30
WHOLE_LIMIT = 1 << 26  # bytes of a message's tensors with every entry counted: expanded ones have few, and cost many
NESTING_LIMIT = 40
PLAIN = frozenset({type(None), bool, int, float, str})
ARGUMENTS = "lists among the arguments"  # what a call that is watched may have changed, besides global state
_LENGTHS = struct.Struct("!IQ")

Message = dict[str, Any]  # a request, or the answer to one
Others = list[str] | dict[str, str]  # the user's other attempts: folders of them, or their texts by track and name
Args = tuple[Any, ...]
Kwargs = dict[str, Any]

DTYPES: dict[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        "float64 float32 float16 bfloat16 complex128 complex64 int64 int32 int16 int8 uint16 uint8 bool"
    ).split()
}


class ProtocolError(Exception):
    """The other side sent something that is no message; the text says what."""


class Closed(ProtocolError):
    """The other side closed the channel."""


@dataclass(frozen=True)
class Remote:
    """An object that stays in the worker, known to the judge by its number."""

    number: int


@dataclass(frozen=True)
class Group:
    """The group of so many ranks, as an argument. Outside of a worker it is rank 0 of them, and hears nobody else."""

    size: int
    rank: int = 0

    def __repr__(self) -> str:
        return f"<{self.size} rank{'s' * (self.size != 1)}>"

    def all_reduce(self, x: Tensor) -> Tensor:
        """The sum over ranks, of which the others bring nothing."""
        return x.detach().clone()


@dataclass(frozen=True)
class PickledCells:
    """What a notebook's kernel has defined: names pickled by value, and the cells as (file name, label, source)."""

    pickled: bytes
    cells: tuple[tuple[str, str, str], ...]


def dump(message: Any) -> list[bytes | bytearray]:
    """The buffers that `message` (JSON values, tuples, tensors, dtypes, devices, `Remote`, `Group`) is sent as."""
    payload: list[bytearray] = []
    whole = 0
    for tensor in tensors_in(message):
        whole = _bounded(tensor.shape, tensor.element_size(), whole)
    header = json.dumps(_encode(message, payload)).encode()
    size = sum(len(part) for part in payload)
    if len(header) > HEADER_LIMIT or size > PAYLOAD_LIMIT:
        raise ProtocolError(f"a message of {len(header) + size} bytes is too long")
    return [_LENGTHS.pack(len(header), size), header, *payload]


def lengths(prefix: bytes) -> tuple[int, int]:
    """Header and payload lengths out of the first `PREFIX` bytes of a message."""
    header, payload = _LENGTHS.unpack(prefix)
    if header > HEADER_LIMIT or payload > PAYLOAD_LIMIT:
        raise ProtocolError(f"announced {header} bytes of header and {payload} of data, more than any answer has")
    return header, payload


PREFIX = _LENGTHS.size


def load(header: bytes, payload: bytearray) -> Any:
    """The message in these bytes.

    Raises:
        ProtocolError: the bytes are no message of ours.
    """
    try:
        reading = _Reading(payload)
        message = reading.decode(json.loads(header))
    except ProtocolError:
        raise
    except (ValueError, KeyError, TypeError, IndexError, RuntimeError, RecursionError, OverflowError) as error:
        raise ProtocolError(f"no readable message: {error}") from None
    if reading.at != len(payload):
        raise ProtocolError(f"{len(payload) - reading.at} bytes of data belong to no tensor")
    return message


def tensors_in(tree: Any) -> list[Tensor]:
    """The tensors of nested lists, tuples and dicts, in their order."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = list(tree.values())
    return [t for item in tree for t in tensors_in(item)] if isinstance(tree, (list, tuple)) else []


def floating_in(tree: Any) -> list[Tensor]:
    """The floating tensors of nested lists, tuples and dicts."""
    return [t for t in tensors_in(tree) if t.is_floating_point()]


def leaves(tree: Any, name: str) -> dict[str, Any]:
    """What nested lists, tuples and dicts hold at their ends, by where it stands: `grads[0]`, `state.step`."""
    if isinstance(tree, dict):
        inner = {f"{name}.{key}": value for key, value in tree.items()}
    elif isinstance(tree, (list, tuple)):
        inner = {f"{name}[{number}]": value for number, value in enumerate(tree)}
    else:
        return {name: tree}
    return {path: leaf for each, value in inner.items() for path, leaf in leaves(value, each).items()}


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same nested lists, tuples and dicts with `function` of what they hold at their ends."""
    if isinstance(tree, dict):
        return {key: mapped(function, value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(mapped(function, value) for value in tree)
    return function(tree)


def same_plain(before: Any, after: Any) -> bool:
    """Whether nested lists, tuples and dicts hold the same plain values; whatever else they hold is not looked at."""
    if isinstance(before, dict):
        return isinstance(after, dict) and [*before] == [*after] and same_plain([*before.values()], [*after.values()])
    if isinstance(before, (list, tuple)):
        alike = isinstance(after, (list, tuple)) and len(before) == len(after)
        return alike and all(map(same_plain, before, after))
    return type(before) not in PLAIN or before is after or before == after


def send(channel: socket.socket, message: Any) -> None:
    """Send one message on a blocking socket."""
    channel.sendall(b"".join(dump(message)))


def receive(channel: socket.socket) -> Any:
    """Receive one message from a blocking socket."""
    header, payload = lengths(bytes(_exactly(channel, PREFIX)))
    return load(bytes(_exactly(channel, header)), _exactly(channel, payload))


def _exactly(channel: socket.socket, size: int) -> bytearray:
    buffer = bytearray(size)
    view = memoryview(buffer)
    while view:
        got = channel.recv_into(view)
        if not got:
            raise Closed("the channel was closed")
        view = view[got:]
    return buffer


def _encode(value: Any, payload: list[bytearray]) -> Any:
    if type(value) in PLAIN:
        return value
    match value:
        case bool() | int() | float() | str():
            return value
        case Tensor():
            return _encode_tensor(value, payload)
        case tuple():
            return {"tuple": [_encode(v, payload) for v in value]}
        case list():
            return [_encode(v, payload) for v in value]
        case dict():
            if not all(isinstance(key, str) for key in value):
                raise ProtocolError("a dict cannot be sent unless its keys are strings")
            return {"map": {k: _encode(v, payload) for k, v in value.items()}}
        case torch.dtype():
            return {"dtype": str(value).removeprefix("torch.")}
        case torch.device():
            return {"device": str(value)}
        case Remote():
            return {"remote": value.number}
        case Group():
            return {"group": value.size}
    raise ProtocolError(f"a {type(value).__name__} cannot be sent")


def _bounded(shape: Sequence[int], itemsize: int, before: int) -> int:
    """The bytes of a message's tensors up to this one, with every entry counted."""
    whole = before + math.prod(shape) * itemsize
    if whole > WHOLE_LIMIT:
        more = f", after {before:,} bytes of others," if before else ""
        raise ProtocolError(f"a tensor of shape {tuple(shape)}{more} is larger than any that is asked for")
    return whole


def _padded(size: int) -> int:
    return -(-size // 16) * 16  # every tensor's data starts aligned


def _encode_tensor(tensor: Tensor, payload: list[bytearray]) -> dict[str, Any]:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES or tensor.layout is not torch.strided:
        layout = str(tensor.layout).removeprefix("torch.")
        raise ProtocolError(f"a {layout} tensor of {name} cannot be sent: dense ones of the usual dtypes can be judged")
    if tensor.is_meta:
        return {"tensor": name, "shape": list(tensor.shape), "device": "meta"}
    here = tensor.detach().cpu()
    if here.is_conj() or here.is_neg():
        here = here.resolve_conj().resolve_neg()
    # The span of memory that the view touches, so that its strides can be rebuilt over a copy of that span alone.
    span = 0 if here.numel() == 0 else 1 + sum((n - 1) * s for n, s in zip(here.shape, here.stride(), strict=True))
    if span > 2 * here.numel():
        here = here.contiguous()
        span = here.numel()
    flat = torch.as_strided(here, (span,), (1,), here.storage_offset())
    data = bytearray(_padded(span * here.element_size()))
    if span:
        torch.frombuffer(data, dtype=here.dtype, count=span).copy_(flat)
    payload.append(data)
    return {
        "tensor": name,
        "shape": list(here.shape),
        "stride": list(here.stride()),
        "span": span,
        "device": str(tensor.device),
        "grad": tensor.requires_grad,
    }


class _Reading:
    """The tensors of a message are read out of its payload in the order in which its header names them."""

    def __init__(self, payload: bytearray) -> None:
        self.payload, self.at = payload, 0
        self.whole = 0  # bytes of the tensors read, with every entry counted

    def decode(self, value: Any, depth: int = 0) -> Any:
        if type(value) in PLAIN:
            return value
        if depth > NESTING_LIMIT:
            raise ProtocolError("nested too deeply")
        if isinstance(value, list):
            return [self.decode(item, depth + 1) for item in value]
        match value:
            case {"tensor": _}:
                return self.tensor(value)
            case {"tuple": list(items)}:
                return tuple(self.decode(item, depth + 1) for item in items)
            case {"map": dict(items)}:
                return {key: self.decode(item, depth + 1) for key, item in items.items()}
            case {"dtype": str(name)}:
                return DTYPES[name]
            case {"device": str(name)}:
                return torch.device(name)
            case {"remote": int(number)}:
                return Remote(number)
            case {"group": int(size)}:
                return Group(size)
        raise ProtocolError(f"unknown value {str(value)[:80]}")

    def tensor(self, head: dict[str, Any]) -> Tensor:
        dtype, shape = DTYPES[head["tensor"]], [int(n) for n in head["shape"]]
        if head["device"] == "meta":
            return torch.empty(shape, dtype=dtype, device="meta")
        span, stride = int(head["span"]), [int(n) for n in head["stride"]]
        self.whole = _bounded(shape, dtype.itemsize, self.whole)
        if span < 0 or len(shape) != len(stride) or len(shape) > 16 or min(shape + stride, default=0) < 0:
            raise ProtocolError("a tensor of impossible layout")
        reach = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, stride, strict=True))
        start, self.at = self.at, self.at + _padded(span * dtype.itemsize)
        if self.at > len(self.payload) or reach > span:
            raise ProtocolError("a tensor longer than its data")
        if span:
            flat = torch.frombuffer(self.payload, dtype=dtype, count=span, offset=start)
        else:
            flat = torch.empty(0, dtype=dtype)
        tensor = torch.as_strided(flat.clone(), shape, stride)
        if head["device"] != "cpu":
            tensor = tensor.to(head["device"])
        return tensor.requires_grad_(bool(head["grad"])) if dtype.is_floating_point or dtype.is_complex else tensor
