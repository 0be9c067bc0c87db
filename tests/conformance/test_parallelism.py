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
from torch.distributed.tensor import DTensor, parallel

from tests.conformance.agreement import normal, solution

SIZES = [2, 4]
AXES = {"w1.weight": 0, "w2.weight": 1, "w3.weight": 0}  # along which a rank holds its part


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


def undivided() -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Weights of a whole SwiGLU layer, an input, and the gradient of its result."""
    shapes = {"w1.weight": (8, 6), "w2.weight": (6, 8), "w3.weight": (8, 6)}
    weights = {name: normal(*shape, seed=number) for number, (name, shape) in enumerate(shapes.items())}
    return weights, normal(2, 5, 6, seed=8), normal(2, 5, 6, seed=9)


def taught(module: nn.Module) -> dict[str, Tensor]:
    """The result of a layer, and what the backward leaves in this process."""
    _, x, upstream = undivided()
    result = module(x.requires_grad_()) + 0  # torch's own may still be under way
    result.backward(upstream)
    grads = {name: parameter.grad for name, parameter in module.named_parameters()}
    own = {name: grad.to_local() if isinstance(grad, DTensor) else grad for name, grad in grads.items()}
    return {"result": result.detach(), "x": x.grad + 0, **own}


def split(group: Gloo) -> list[dict[str, Tensor]]:
    """A layer over all ranks; and by torch's own tensor parallelism around the undivided one."""
    weights, *_ = undivided()
    module = solution("tensor_parallel").TensorParallelSwiGLU(6, 8, group, dtype=torch.float64)
    module.load_state_dict({name: w.chunk(group.size, AXES[name])[group.rank] for name, w in weights.items()})
    whole = solution("swiglu").SwiGLU(6, 8, dtype=torch.float64)
    whole.load_state_dict(weights)
    rows, columns = parallel.ColwiseParallel(), parallel.RowwiseParallel()  # of y = x A: here y = A x
    mesh = dist.init_device_mesh("cpu", (group.size,))
    theirs = parallel.parallelize_module(whole, mesh, {"w1": rows, "w3": rows, "w2": columns})
    return [taught(module), taught(theirs)]


@pytest.mark.parametrize("size", SIZES)
def test_a_layer_split_over_processes_is_the_undivided_one_and_torchs(size: int, tmp_path: Path) -> None:
    module = solution("swiglu").SwiGLU(6, 8, dtype=torch.float64)
    module.load_state_dict(undivided()[0])
    whole, found = taught(module), on_ranks(size, split, tmp_path)
    for ours, theirs in found:
        assert torch.equal(ours["result"], found[0][0]["result"])
        assert all((ours[name] - whole[name]).abs().max() < 1e-12 for name in ("result", "x"))
        assert all((ours[name] - theirs[name]).abs().max() < 1e-12 for name in whole)
    for name, axis in AXES.items():
        assert (torch.cat([ours[name] for ours, _ in found], axis) - whole[name]).abs().max() < 1e-12
