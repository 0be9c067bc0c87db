"""Clipping against `torch.nn.utils`, accumulating against the gradient of one large batch."""

from __future__ import annotations

import copy

import pytest
from torch import nn

from tests.conformance.agreement import normal, solution


@pytest.mark.parametrize("max_norm", [0.5, 100.0])
def test_clipping_is_torchs(max_norm: float) -> None:
    module = nn.Linear(3, 4).double()
    for number, parameter in enumerate(module.parameters()):
        parameter.grad = normal(*parameter.shape, seed=number).double()
    clipped, norm = solution("gradients").clip_by_global_norm([p.grad.clone() for p in module.parameters()], max_norm)
    theirs = nn.utils.clip_grad_norm_(module.parameters(), max_norm)
    assert (norm - theirs).abs() < 1e-10
    for ours, parameter in zip(clipped, module.parameters(), strict=True):
        assert (ours - parameter.grad).abs().max() < 1e-10


def test_accumulating_gives_the_gradient_of_one_large_batch() -> None:
    whole, counts = nn.Linear(3, 1).double(), [2, 7, 1]
    x, y = normal(10, 3).double(), normal(10, 1, seed=2).double()
    parts = []
    for rows, targets in zip(x.split(counts), y.split(counts), strict=True):
        part = copy.deepcopy(whole)
        (part(rows) - targets).square().mean().backward()
        parts.append([p.grad for p in part.parameters()])
    (whole(x) - y).square().mean().backward()
    means = solution("gradients").accumulate_gradients(parts, counts)
    for ours, parameter in zip(means, whole.parameters(), strict=True):
        assert (ours - parameter.grad).abs().max() < 1e-12
