"""What a contract of code that runs on several ranks asks besides: every call is one of all ranks, in one worker.

A call names `Group(size)` among its arguments, or gives each rank a value of its own: `EachRank([1, 3])`. What the
ranks answer is joined: results and gradients of inputs must be the same on each, parameters are parts of whole ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor

from dojo.contracts.checks.assertions import fail, match
from dojo.contracts.checks.inputs import Call, Draw
from dojo.judge import protocol
from dojo.judge.protocol import Group, Message, Remote, tensors_in
from dojo.judge.proxy import Attempt
from dojo.judge.worker_handle import Worker
from dojo.verdict.failures import Fault

ALIKE = {"value": "result", "buffers": "buffer", "gradients": "gradient of ", "parameters": ""}  # by name of the answer


class EachRank(list[Any]):
    """An argument that is another one on each rank."""


class Ranked(Attempt):
    """An attempt whose every call is made by all ranks of a group. It shares all else with the attempt itself."""

    __slots__ = ("attempt", "calls", "latest", "same_bits", "shards", "sizes", "uneven")

    def __init__(self, attempt: Attempt, shards: dict[str, int], same_bits: bool = True) -> None:
        self.__dict__, self.attempt = attempt.__dict__, attempt
        self.shards = shards  # by parameter the axis along which each rank holds its part
        self.same_bits = same_bits  # what all ranks have is equal, and not only as far as it is rounded
        self.sizes: dict[int, int] = {}  # how many ranks hold an object, by its number
        self.latest = 0  # how many made the request before: as many make one that tells no number
        self.uneven: set[int] = set()  # the prepared arguments that are other ones on each rank
        self.calls: list[list[Message]] = []  # what each rank handed over in each of the last requests

    def worker(self) -> Worker:
        return self.attempt.worker()

    def ask(self, *requests: Message) -> Iterator[Message]:
        self.calls = []
        sizes = [self._size(request) for request in requests]
        return map(self._joined, requests, sizes, super().ask(*map(self._shared, requests, sizes)))

    def _size(self, request: Message) -> int:
        """How many ranks make a request, in an observation the last of its calls."""
        if request["do"] == "observe":
            return [self._size(each) for each in request["inner"]][-1]

        def told(value: Any) -> int:
            if isinstance(value, Group):
                return value.size
            if isinstance(value, Remote):
                return self.sizes.get(value.number, 0)
            if isinstance(value, EachRank):
                return len(value)
            parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
            return max(map(told, parts), default=0)

        self.latest = told(request) or self.latest
        if request["do"] == "build":
            self.sizes[request["kept"].number] = self.latest
        return self.latest

    def _shared(self, request: Message, size: int) -> Message:
        """What is asked of the worker: the request of each rank."""
        if request["do"] == "observe":
            return request | {"inner": [self._shared(each, self._size(each)) for each in request["inner"]]}
        if not size:
            return request
        if request["do"] == "assign":
            return _of_ranks(request, size, lambda rank: {"values": self._parts(request["values"], rank, size)})
        if request["do"] == "rescale" and request["prepared"].number in self.uneven:
            own = len(request["factors"]) // size
            return _of_ranks(request, size, lambda rank: {"factors": request["factors"][rank * own :][:own]})
        return _of_ranks(request, size)

    def _parts(self, values: dict[str, Tensor], rank: int, size: int) -> dict[str, Tensor]:
        return {k: v.tensor_split(size, self.shards[k])[rank] if k in self.shards else v for k, v in values.items()}

    def _joined(self, request: Message, size: int, answer: Message) -> Message:
        if not size:
            return answer
        last = request["inner"][-1] if request["do"] == "observe" else request
        ranks: list[Message] = answer["ranks"]
        self.calls.append(answer["calls"])
        found = {key: self._join(key, [rank[key] for rank in ranks], last) for key in ranks[0]}
        if isinstance(kept := found.get("value"), Remote):
            self.sizes[kept.number] = size
            if last["do"] == "stage" and _differ(last):
                self.uneven.add(kept.number)
        return found | {key: answer[key] for key in ("readings",) if key in answer}

    def _join(self, key: str, found: list[Any], request: Message) -> Any:
        if key == "inputs" and _differ(request):
            return [each for own in found for each in own]
        if key == "inputs":
            return [self._same([*each], "gradient of an input") for each in zip(*found, strict=True)]
        if key == "changed":
            return list(dict.fromkeys(name for own in found for name in own))
        if key == "shapes":
            return {name: self._whole(name, [own.get(name, ()) for own in found]) for name in found[0]}
        if key in ALIKE and isinstance(found[0], dict):
            return {name: self._whole_tensor(key, name, [own.get(name) for own in found]) for name in found[0]}
        return self._same(found, ALIKE[key]) if key in ALIKE else next((own for own in found if own), found[0])

    def _whole(self, name: str, shapes: list[Any]) -> tuple[int, ...]:
        whole = list(shapes[0])
        if name in self.shards and len(whole) > self.shards[name]:
            axis = self.shards[name]
            whole[axis] = sum(shape[axis] for shape in shapes if len(shape) > axis)
        return tuple(whole)

    def _whole_tensor(self, key: str, name: str, parts: list[Any]) -> Any:
        if name in self.shards and all(isinstance(part, Tensor) for part in parts):
            if parts[0].is_meta:  # to join these torch imports the whole compiler
                return torch.empty(
                    self._whole(name, [part.shape for part in parts]), device="meta", dtype=parts[0].dtype
                )
            return torch.cat(parts, self.shards[name])
        return self._same(parts, f"{ALIKE[key]}{name}")

    def _same(self, found: list[Any], what: str) -> Any:
        """What all ranks answered. Raises Wrong where they differ: in a bit, or in more than roundings."""
        first = protocol.leaves(found[0], what)
        bits = ", bit for bit" * self.same_bits
        for rank, other in enumerate(found[1:], 1):
            leaves, sentence = protocol.leaves(other, what), f"rank {rank} has what rank 0 has"
            if leaves.keys() != first.keys():
                fail(f"{sentence}: as many results", f"got {len(leaves)}, expected {len(first)}")
            for name, value in leaves.items():
                if isinstance(value, Tensor) and isinstance(first[name], Tensor) and not value.is_meta:
                    expected = first[name].cpu()
                    allowed = None if self.same_bits else _rounding(expected)
                    match(value.cpu(), expected, allowed, f"{sentence}{bits}: {name}", "")
                elif type(value) is not type(first[name]) or (not isinstance(value, Tensor) and value != first[name]):
                    fail(f"{sentence}: {name}", f"got {value!r:.80}, expected {first[name]!r:.80}")
        return found[0]


def _of_ranks(request: Message, size: int, own: Callable[[int], Message] = lambda rank: {}) -> Message:
    inner = [{k: share_of(v, rank) for k, v in request.items()} | own(rank) for rank in range(size)]
    return {"do": "ranks", "size": size, "inner": inner}


def share_of(value: Any, rank: int) -> Any:
    """What one rank is given of a value."""
    if isinstance(value, EachRank):
        return share_of(value[rank], rank)
    if isinstance(value, dict):
        return {name: share_of(item, rank) for name, item in value.items()}
    return type(value)(share_of(item, rank) for item in value) if isinstance(value, (list, tuple)) else value


def _differ(request: Message) -> bool:
    """Whether ranks are given tensors of their own."""
    given = [*request.get("args", ()), *request.get("kwargs", {}).values()]
    return any(isinstance(each, EachRank) and tensors_in(each) for each in given)


def _rounding(value: Tensor) -> Tensor | None:
    """How far two ranks that round otherwise may be apart, and none that computes something else."""
    if not value.is_floating_point():
        return None
    largest = value.abs().nan_to_num(0, 0, 0).amax() if value.numel() else value.sum()
    return largest.double().expand(value.shape) * torch.finfo(value.dtype).eps ** 0.5


class OnRanks:
    """What comes before the contract class of code that runs on several ranks."""

    shards: ClassVar[dict[str, int]] = {}  # by parameter the axis along which each rank holds its part
    same_bits: ClassVar[bool] = True  # ranks may not even round otherwise

    @classmethod
    def as_seen(cls, attempt: Attempt) -> Attempt:
        """The attempt, each call of which all ranks make."""
        return Ranked(attempt, cls.shards, cls.same_bits)

    @classmethod
    def params(cls, d: Draw, init: dict[str, Any], **scales: float) -> dict[str, Tensor]:
        """Random parameters, whole."""
        return super().params(d, init | {"group": Group(1)}, **scales)  # type: ignore[misc]

    @contextmanager
    def case_context(self, attempt: Attempt, case: str, call: Call) -> Iterator[None]:
        """The failing case in words; a script of one process cannot repeat it."""
        try:
            with super().case_context(attempt, case, call):  # type: ignore[misc]
                yield
        except Fault as fault:
            fault.failing = None
            raise
