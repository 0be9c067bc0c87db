"""Solutions on real processes that talk by gloo, against one process that has everything, and torch's own wrappers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn

from tests.conformance.agreement import normal, solution

SIZES = [2, 4]


class Gloo:
    """The protocol of the stubs over a true process group."""

    def __init__(self) -> None:
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def all_reduce(self, x: Tensor) -> Tensor:
        total = x.detach().clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total


def on_ranks(size: int, work: Callable[[Gloo], Any], folder: Path) -> list[Any]:
    """What a function gives on each of so many processes."""
    mp.spawn(_rank, (size, work, str(folder)), nprocs=size)
    return [torch.load(folder / f"{rank}.pt") for rank in range(size)]


def _rank(rank: int, size: int, work: Callable[[Gloo], Any], folder: str) -> None:
    torch.set_num_threads(1)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", store=dist.FileStore(f"{folder}/store", size), rank=rank, world_size=size)
    torch.save(work(Gloo()), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def a_model() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 5), nn.SiLU(), nn.Linear(5, 2)).double()
    for number, parameter in enumerate(model.parameters()):
        parameter.data = normal(*parameter.shape, seed=number)
    return model


def counts(size: int) -> list[int]:
    return [3, 1, 8, 0][:size]


def batch(tokens: int) -> tuple[Tensor, Tensor]:
    return normal(tokens, 3, seed=7), normal(tokens, 2, seed=8)


def backward(model: nn.Module, x: Tensor, y: Tensor) -> list[Tensor]:
    (model(x) - y).square().sum(-1).mean().backward()
    return [parameter.grad for parameter in model.parameters()]


def averaged(group: Gloo) -> list[list[Tensor]]:
    """Gradients of batches that differ in size; and of batches of one size, also by torch's wrapper."""
    uneven, even, theirs, own = a_model(), a_model(), nn.parallel.DistributedDataParallel(a_model()), counts(group.size)
    backward(uneven, *(each.split(own)[group.rank] for each in batch(sum(own))))
    solution("ddp").average_gradients(uneven.parameters(), group, own[group.rank], bucket_size=12)
    share = [each.chunk(group.size)[group.rank] for each in batch(4 * group.size)]
    backward(even, *share)
    solution("ddp").average_gradients(even.parameters(), group, 4)
    return [*([p.grad for p in model.parameters()] for model in (uneven, even)), backward(theirs, *share)]


@pytest.mark.parametrize("size", SIZES)
def test_gradients_averaged_over_processes_are_those_of_one_and_torchs(size: int, tmp_path: Path) -> None:
    expected, found = backward(a_model(), *batch(sum(counts(size)))), on_ranks(size, averaged, tmp_path)
    for uneven, even, theirs in found:
        assert all(torch.equal(own, first) for own, first in zip(uneven, found[0][0], strict=True))
        assert all((own - whole).abs().max() < 1e-12 for own, whole in zip(uneven, expected, strict=True))
        assert all((own - other).abs().max() < 1e-12 for own, other in zip(even, theirs, strict=True))
