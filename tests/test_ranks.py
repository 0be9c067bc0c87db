"""Ranks in one worker: what they say to each other is right and counted, and none that stays away is waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from dojo.contracts.checks.ranks import EachRank, Ranked
from dojo.judge import answers, protocol
from dojo.judge.fork_server import ForkServer
from dojo.judge.proxy import Attempt
from dojo.judge.worker.ranks import Group, OutOfStep, World
from dojo.verdict.failures import Raised

SOURCE = """
import torch
from torch import nn

seen = []

def total(x, group): return group.all_reduce(x)
def own(x, group): return x * 1.0
def apart(x, group): return group.all_reduce(x if group.rank else x[:1])
def leaves(x, group): return x if group.rank == 1 else group.all_reduce(x)
def fails(x, group):
    if group.rank == 1:
        raise ValueError("rank 1 has had enough")
    return group.all_reduce(x)
def remembers(x, group):
    seen.append(group.rank)
    return torch.tensor(seen) - group.rank + 0 * x.long()

class Summed(nn.Module):
    def __init__(self, rows, group):
        super().__init__()
        self.weight, self.group = nn.Parameter(torch.zeros(rows // group.size, 3)), group
    def forward(self, x):
        return _Sum.apply((self.weight * x.detach()).sum(0), self.group)

class _Sum(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group): return group.all_reduce(x)
    @staticmethod
    def backward(ctx, grad): return grad, None
"""


def ran(size: int, work: Callable[[Group], Any]) -> tuple[list[Any], World]:
    """What a function gives on each of so many ranks."""
    world = World(size)
    groups = [Group(world, rank) for rank in range(size)]
    return world.run([lambda group=group: work(group) for group in groups]), world


def test_the_four_calls_give_what_they_say() -> None:
    def work(group: Group) -> list[torch.Tensor]:
        x = torch.arange(6.0) + 10 * group.rank
        return [group.all_reduce(x), group.all_gather(x[:2]), group.reduce_scatter(x), group.shift(x[:1])]

    found, world = ran(3, work)
    for rank, (whole, joined, share, before) in enumerate(found):
        assert whole.tolist() == [30 + 3 * i for i in range(6)]
        assert joined.tolist() == [0, 1, 10, 11, 20, 21]
        assert torch.equal(share, whole[2 * rank :][:2])
        assert before.item() == 10 * ((rank - 1) % 3)
    names = ["all_reduce", "all_gather", "reduce_scatter", "shift"]
    assert [call["operation"] for call in world.calls] == names
    assert [call["bytes"] for call in world.calls] == [24, 8, 24, 4]


def test_a_call_leaves_its_argument_alone_and_is_not_differentiable() -> None:
    def work(group: Group) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.ones(2, requires_grad=True)
        return x, group.all_reduce(x).add_(group.rank)

    for rank, (x, total) in enumerate(ran(2, work)[0]):
        assert x.tolist() == [1, 1]
        assert total.tolist() == [2 + rank] * 2
        assert not total.requires_grad


@pytest.mark.parametrize(
    ("work", "told"),
    {
        "another shape": (
            lambda g: g.all_reduce(torch.ones(2 + g.rank)),
            "rank 0 is in its call 1, all_reduce of (2,) float32; rank 1 is in its call 1, all_reduce of (3,) float32",
        ),
        "another dtype": (lambda g: g.all_reduce(torch.ones(2).to((torch.half, torch.int64)[g.rank])), "of (2,) int64"),
        "another call": (lambda g: (g.all_reduce if g.rank else g.shift)(torch.ones(2)), "rank 0 is in its call 1, sh"),
        "one more": (
            lambda g: [g.all_reduce(torch.ones(1)) for _ in range(1 + g.rank)],
            "rank 0 has ended after 1 call; rank 1 is in its call 2, all_reduce of (1,) float32",
        ),
    }.values(),
)  # fmt: skip
def test_ranks_out_of_step_hear_of_it_at_once(work: Callable[[Group], Any], told: str) -> None:
    with pytest.raises(OutOfStep) as raised:
        ran(2, work)
    assert told in str(raised.value)


def test_a_rank_that_swallows_it_is_told_all_the_same() -> None:
    def work(group: Group) -> None:
        for _ in range(3 * (1 - group.rank)):
            try:
                group.all_reduce(torch.ones(1))
            except OutOfStep:
                continue

    with pytest.raises(OutOfStep, match="rank 1 has ended after 0 calls"):
        ran(2, work)


def test_what_a_rank_raises_comes_before_what_the_others_hear() -> None:
    def work(group: Group) -> None:
        if group.rank == 1:
            raise KeyError("mine")
        group.all_reduce(torch.ones(1))

    with pytest.raises(KeyError, match="mine"):
        ran(3, work)


def test_a_call_may_be_made_in_a_thread_of_the_rank() -> None:
    def work(group: Group) -> list[float]:
        found: list[float] = []
        thread = threading.Thread(target=lambda: found.append(group.all_reduce(torch.ones(1)).item()))
        thread.start()
        thread.join()
        return found

    assert ran(4, work)[0] == [[4.0]] * 4


@pytest.fixture
def ranked(server: ForkServer) -> Iterator[Ranked]:
    attempt = Attempt(server, SOURCE, "attempt.py")
    yield Ranked(attempt, {"weight": 0})
    attempt.close()


def test_every_rank_is_given_its_own_and_what_they_say_is_counted(ranked: Ranked) -> None:
    xs = EachRank([torch.ones(3), 2 * torch.ones(3)])
    assert ranked.total(xs, protocol.Group(2)).tolist() == [3, 3, 3]
    assert ranked.calls == [[{"operation": "all_reduce", "numbers": 3, "bytes": 12}]]


def test_ranks_that_differ_in_a_bit_are_told(ranked: Ranked) -> None:
    with pytest.raises(Exception, match="rank 1 has what rank 0 has, bit for bit: result"):
        ranked.own(EachRank([torch.ones(3), torch.ones(3) + 2**-23]), protocol.Group(2))


def test_each_rank_has_the_file_run_for_itself(ranked: Ranked) -> None:
    assert ranked.remembers(torch.ones(1), protocol.Group(3)).tolist() == [0]


@pytest.mark.parametrize(
    ("name", "kind", "line"), [("apart", "OutOfStep", 9), ("leaves", "OutOfStep", 10), ("fails", "ValueError", 13)]
)
def test_a_rank_out_of_step_is_told_with_a_line(ranked: Ranked, name: str, kind: str, line: int) -> None:
    with pytest.raises(Raised) as raised:
        getattr(ranked, name)(torch.ones(2), protocol.Group(2))
    assert (raised.value.kind, raised.value.failure.line) == (kind, line)
    assert ranked.total(torch.ones(1), protocol.Group(2)).item() == 2  # the worker goes on


def test_parameters_are_parts_of_whole_ones(ranked: Ranked) -> None:
    x, whole = torch.tensor([1.0, 2.0, 3.0]), torch.arange(12.0).view(4, 3)
    for size in (2, 4):
        module = ranked.Summed.build(4, protocol.Group(size)).load_state_dict({"weight": whole})
        assert module.outline()["shapes"] == {"weight": (4, 3)}
        assert torch.equal(module.describe()["parameters"]["weight"], whole)
        request = {"do": "forward_backward", "target": module.target, "args": (x,), "kwargs": {}}
        found = module.ask(**request, cotangents=[torch.ones(3)])
        assert torch.equal(found["value"], whole.sum(0) * x)
        assert torch.equal(found["gradients"]["weight"], x.expand(4, 3))


@pytest.mark.parametrize(
    "reply",
    [
        {"ranks": [{"value": 1}], "calls": []},
        {"ranks": [{"value": 1}, {}], "calls": []},
        {"ranks": [{"value": 1}, {"unanswerable": "why"}], "calls": []},
        {"ranks": [{"value": 1}, {"value": 1}], "calls": [{"operation": "all_reduce", "numbers": True, "bytes": 4}]},
        {"ranks": [{"value": 1}, 2], "calls": []},
    ],
)
def test_a_forged_answer_of_ranks_is_none(reply: dict[str, Any]) -> None:
    request = {"do": "ranks", "size": 2, "inner": [{"do": "call"}, {"do": "call"}]}
    assert answers.answers({"ranks": [{"value": 1}, {"value": 2}], "calls": []}, request)
    assert not answers.answers(reply, request)
