"""Ranks in one process: each runs in a thread of its own, one at a time, from one call of its group to the next.

No rank waits for a clock. Where all wait in the same call, it is made; where one does otherwise than the others, all of
them hear of it at once, and where they wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


class OutOfStep(RuntimeError):
    """A rank waits in a call that the others do not make."""


@dataclass
class _Rank:
    """Where a rank is."""

    work: Callable[[], Any] = lambda: None
    call: tuple[str, tuple[int, ...], str] | None = None  # it waits in this one: operation, shape and dtype
    part: Tensor | None = None  # what it brings along
    calls: int = 0  # how many it has made
    goes: bool = False
    ended: bool = False
    value: Any = None
    error: BaseException | None = None

    def told(self) -> str:
        """Where it is, in words."""
        if self.call:
            operation, shape, dtype = self.call
            return f"is in its call {self.calls + 1}, {operation} of {shape} {dtype}"
        return f"{'raised' if self.error else 'has ended'} after {self.calls} call{'s' * (self.calls != 1)}"


@dataclass
class World:
    """Some ranks, and what they say to each other."""

    size: int
    calls: list[dict[str, Any]] = field(default_factory=list)  # what each rank handed over in the last run
    _ranks: list[_Rank] = field(default_factory=list)
    _met: list[Tensor] = field(default_factory=list)
    _apart: str = ""  # how the ranks differ, once they do
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def run(self, works: Sequence[Callable[[], Any]]) -> list[Any]:
        """What each rank's work gives; the first exception of a rank that is its own is raised here."""
        self.calls, self._apart, self._ranks = [], "", [_Rank(work) for work in works]
        modes = [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]
        threads = [threading.Thread(target=self._work, args=(rank, modes), daemon=True) for rank in self._ranks]
        while going := [number for number, rank in enumerate(self._ranks) if rank.call or not rank.ended]:
            for number in going:
                self._go_on(self._ranks[number], threads[number])
            self._meet()
        errors = [rank.error for rank in self._ranks if rank.error]
        if errors:
            raise next((error for error in errors if not isinstance(error, OutOfStep)), errors[0])
        if self._apart:  # some rank has swallowed it
            raise OutOfStep(self._apart)
        return [rank.value for rank in self._ranks]

    def _work(self, rank: _Rank, modes: list[Any]) -> None:
        """The thread of a rank, which is counted as its caller is, and goes back through a graph by itself."""
        try:
            with ExitStack() as stack:
                stack.enter_context(torch.autograd.grad_mode.set_multithreading_enabled(False))
                for mode in modes:
                    stack.enter_context(mode)
                rank.value = rank.work()
        except BaseException as error:
            rank.error = error
        with self._changed:
            rank.ended = True
            self._changed.notify_all()

    def _go_on(self, rank: _Rank, thread: threading.Thread) -> None:
        """Let a rank run up to its next call, or its end."""
        with self._changed:
            rank.call, rank.goes = None, True
            self._changed.notify_all()
            if thread.ident is None:
                thread.start()
            self._changed.wait_for(lambda: rank.call is not None or rank.ended)

    def _meet(self) -> None:
        """Make the call that all are in, if it is one."""
        calls = [rank.call for rank in self._ranks]
        if not any(calls):
            return
        if len({*calls}) > 1:
            places = "; ".join(f"rank {number} {rank.told()}" for number, rank in enumerate(self._ranks))
            self._apart = self._apart or f"all ranks make the same calls in the same order: {places}"
            return
        self._met = [rank.part for rank in self._ranks if rank.part is not None]
        part = self._met[0]
        handed = {"numbers": part.numel(), "bytes": part.numel() * part.element_size()}
        self.calls.append({"operation": str(calls[0] and calls[0][0]), **handed})

    def meet(self, number: int, operation: str, x: Tensor) -> list[Tensor]:
        """What all ranks bring to a call, in their order; each waits here for the others."""
        if not isinstance(x, Tensor):
            raise TypeError(f"{operation} takes a tensor, not a {type(x).__name__}")
        rank = self._ranks[number]
        with self._changed:
            if rank.call:
                raise OutOfStep(f"rank {number} makes a call while it {rank.told()}")
            if not self._apart:
                rank.part = x.detach().clone()
                rank.call, rank.goes = (operation, tuple(x.shape), str(x.dtype).removeprefix("torch.")), False
                self._changed.notify_all()
                self._changed.wait_for(lambda: rank.goes)
            if self._apart:
                raise OutOfStep(self._apart)
            rank.calls += 1
            return self._met


class Group:
    """What a rank knows of the others. Each call waits for all of them, and none is differentiable."""

    def __init__(self, world: World, rank: int) -> None:
        self._world, self.rank, self.size = world, rank, world.size

    @torch.no_grad()
    def all_reduce(self, x: Tensor) -> Tensor:
        """The sum over ranks, in their order and in the dtype of x: the same bits everywhere."""
        first, *others = self._world.meet(self.rank, "all_reduce", x)
        total = first.clone()
        for other in others:
            total += other
        return total

    @torch.no_grad()
    def all_gather(self, x: Tensor, dim: int = 0) -> Tensor:
        """What all ranks bring, joined in their order."""
        return torch.cat(self._world.meet(self.rank, "all_gather", x), dim)

    @torch.no_grad()
    def reduce_scatter(self, x: Tensor, dim: int = 0) -> Tensor:
        """This rank's share of the sum."""
        if x.shape[dim] % self.size:
            raise ValueError(f"reduce_scatter: {x.shape[dim]} along axis {dim} cannot be shared by {self.size} ranks")
        parts = self._world.meet(self.rank, "reduce_scatter", x)
        own = [part.chunk(self.size, dim)[self.rank] for part in parts]
        return sum(own[1:], own[0].clone())

    @torch.no_grad()
    def shift(self, x: Tensor) -> Tensor:
        """What the rank before this one brings; the last one's goes to rank 0."""
        return self._world.meet(self.rank, "shift", x)[self.rank - 1].clone()
