"""Masters are written as a lab would merge them, but for what `idiom.EXEMPT` names; and each idiom's check bites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from dojo.content import catalog
from dojo.proving import idiom
from dojo.proving.idiom import Subject

X, MASK = torch.linspace(-1, 1, 12).view(3, 4), torch.tensor([True, False, True])
BY_VALUES = {"no graph break", "no wait for the device", "fake tensors"}


FEW = ("softmax", "rope", "gqa")
EACH = [pytest.param(name, marks=() if name in FEW else pytest.mark.proof) for name in catalog.katas()]


@pytest.mark.parametrize("name", EACH)
def test_masters_keep_the_idioms_and_no_exemption_is_left_over(name: str) -> None:
    assert not idiom.faults(catalog.katas()[name])


def test_exemptions_are_of_katas_and_idioms_that_there_are() -> None:
    assert set(idiom.EXEMPT) <= set(catalog.katas())
    assert {each for found in idiom.EXEMPT.values() for each in found} <= set(idiom.IDIOMS)


def subject(make: Callable, *args: Tensor) -> Subject:
    def placed(device: torch.device | None) -> Callable:
        made = make()
        return made.to(device) if isinstance(made, nn.Module) else made

    return Subject(Path(__file__), "it", placed, args or (X,))


def broken(checked: Subject) -> dict[str, str]:
    return {name: seen for name, check in idiom.IDIOMS.items() if (seen := idiom.ask(check, checked))}


class Table(nn.Module):
    """As it should be: the table is a buffer that `reset_parameters` fills."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("table", torch.empty(4), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        self.table.copy_(torch.arange(4.0))

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 0, x * self.weight + self.table, 0.0)


class Unfilled(Table):
    """What Llama-style code does: the table is filled at construction alone."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(4.0), persistent=False)

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)


class Loose(Unfilled):
    """The table is a plain attribute, and moved where it is needed."""

    def __init__(self) -> None:
        super().__init__()
        del self.table
        self.table = torch.arange(4.0)

    def forward(self, x: Tensor) -> Tensor:
        self.table = self.table.to(x.device)
        return super().forward(x)


class Remembering(Table):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(len(x))
        return super().forward(x)


def test_a_module_with_a_filled_buffer_keeps_all() -> None:
    assert broken(subject(Table)) == {}


@pytest.mark.parametrize(
    ("made", "names"),
    [
        (subject(Unfilled), {"meta device"}),
        (subject(Loose), {"meta device", "no attribute assigned"}),
        (subject(Remembering), {"no attribute assigned"}),
        (subject(lambda: lambda x: x.double().float()), {"no float64 on a device"}),
        (subject(lambda: lambda x: x if x.sum() > 0 else -x), BY_VALUES),
        (subject(lambda: lambda x, kept: x[kept], X, MASK), BY_VALUES),
        (subject(lambda: lambda x: x * x[0, 0].item()), BY_VALUES),
    ],
    ids=["unfilled", "loose", "remembering", "float64", "a branch", "a mask", "item"],
)
def test_each_idiom_is_held(made: Subject, names: set[str]) -> None:
    seen = broken(made)
    assert set(seen) == names
    assert all("test_idiom.py:" in seen[name] for name in names & {"no wait for the device"})


def test_a_call_without_operations_breaks_no_graph_and_a_loop_that_does_is_told() -> None:
    def loops(x: Tensor) -> Tensor:
        for _ in range(2):
            x = x * x.sum().item()
        return x

    assert not idiom.no_graph_break(subject(lambda: lambda x: x))
    assert "within a loop" in idiom.no_graph_break(subject(lambda: loops))


@pytest.mark.parametrize("method", [Tensor.tolist, Tensor.cpu], ids=["tolist", "cpu"])
def test_a_copy_to_the_host_is_a_wait(method: Callable) -> None:
    def copies(x: Tensor) -> Tensor:
        method(x)
        return x

    assert "waits for values" in idiom.no_wait(subject(lambda: copies))


def test_one_value_is_written_by_a_mask_without_a_wait() -> None:
    def fill(x: Tensor, kept: Tensor) -> Tensor:
        x = x.clone()
        x[kept] = 0.0
        return x

    assert not idiom.no_wait(subject(lambda: fill, X, MASK))
