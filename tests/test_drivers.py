"""What the worker's own loops do with an object that is right."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dojo.judge.worker.drivers import NextToken, trained


class Plain:
    """Gradient descent on the sum of all logits."""

    def __init__(self, model: NextToken, lr: float) -> None:
        self.model, self.lr, self.norm = model, lr, 0.0

    def step(self, batch: Tensor) -> float:
        self.model.train()
        params = [p for p in self.model.parameters() if p.requires_grad]
        loss = self.model(batch).sum()
        grads = torch.autograd.grad(loss, params, allow_unused=True, materialize_grads=True)
        self.norm = torch.cat([grad.flatten() for grad in grads]).norm().item()
        for p, grad in zip(params, grads, strict=True):
            p.data -= self.lr * grad
        return loss.item()

    def state_dict(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.model.state_dict().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.model.load_state_dict(state)


def values(seed: int) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    shapes = {"embedding": (5, 2), "scale": (2,), "head": (5, 2), "bias": (5,), "frozen": (2, 2), "unused": (3,)}
    return {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}


def run(*lines: list[Any]) -> list[Any]:
    found: list[Any] = trained(Plain, [["make", values(1), {"lr": 0.1}, 0.5], *lines])["value"]
    return found


STEP: list[Any] = ["step", torch.tensor([[1, 2, 3]]), {}, ""]


def test_a_state_that_is_loaded_goes_on_where_it_was_taken() -> None:
    other = ["make", values(2), {"lr": 0.1}, 0.5]
    _, one, two = run(STEP, ["save"], ["file"], ["seed", 4], STEP, other, ["load"], ["seed", 4], STEP)
    assert one["loss"] == two["loss"]
    assert all(torch.equal(value, two["values"][name]) for name, value in one["values"].items())
    assert torch.equal(one["values"]["frozen"], values(1)["frozen"])


def test_a_fault_is_that_of_one_forward() -> None:
    bad, norm = run(["seed", 1], [*STEP[:3], "gradient"], ["read", "norm"])
    assert math.isfinite(bad["loss"])
    assert not math.isfinite(norm)
    assert math.isnan(run([*STEP[:3], "loss"])[0]["loss"])
    assert run(["seed", 1], STEP)[0]["loss"] == bad["loss"]
