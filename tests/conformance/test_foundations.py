"""Norms and convolutions against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.conformance.agreement import agree, normal, solution


@pytest.mark.parametrize(
    ("made", "place", "more"),
    [(nn.BatchNorm1d, (), {}), (nn.BatchNorm1d, (4,), {"eps": 0.1}), (nn.BatchNorm2d, (3, 4), {"momentum": 0.3})],
)
def test_batch_norm_is_torchs_over_three_steps_and_evaluation(made: type, place: tuple, more: dict) -> None:
    batches = [normal(size, 5, *place, seed=size) * 2 + 1 for size in (6, 3, 4, 7)]
    weight, bias = normal(5, seed=8), normal(5, seed=9)

    def stepped(build: type, dtype: torch.dtype) -> torch.Tensor:
        norm = build(5, **more).to(dtype)
        norm.load_state_dict({"weight": weight, "bias": bias}, strict=False)
        found = [norm(batch.to(dtype)) for batch in batches[:3]]
        found.append(norm.eval()(batches[3].to(dtype)))
        return torch.cat([each.flatten() for each in (*found, norm.running_mean, norm.running_var)])

    ours = solution("batchnorm").BatchNorm
    agree(lambda dtype: stepped(made, dtype), lambda dtype: stepped(ours, dtype))


def test_batch_norm_has_its_known_values() -> None:
    norm = solution("batchnorm").BatchNorm(1)
    found = norm(torch.tensor([[1.0], [3.0]])).flatten()
    seen = torch.cat([found, norm.running_mean, norm.running_var])
    assert torch.allclose(seen, torch.tensor([-1.0, 1.0, 0.2, 1.1]), atol=1e-5)
