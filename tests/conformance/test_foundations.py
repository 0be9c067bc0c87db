"""Norms and convolutions against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
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


@pytest.mark.parametrize(
    ("channels", "out", "more"),
    [
        (3, 4, {}),
        (3, 4, {"stride": (2, 3), "padding": (1, 2)}),
        (3, 4, {"dilation": (2, 1), "padding": 2}),
        (6, 4, {"groups": 2, "stride": 2}),
        (3, 6, {"groups": 3, "stride": (1, 2), "padding": (3, 1), "dilation": (2, 3)}),
    ],
)
def test_conv2d_is_torchs(channels: int, out: int, more: dict) -> None:
    x, bias = normal(2, channels, 7, 9), normal(out, seed=3)
    weight = normal(out, channels // more.get("groups", 1), 3, 2, seed=2)
    ours = solution("conv2d").conv2d
    agree(
        lambda dtype: F.conv2d(x.to(dtype), weight.to(dtype), bias.to(dtype), **more),
        lambda dtype: ours(x.to(dtype), weight.to(dtype), bias.to(dtype), **more),
    )


def test_conv2d_has_the_values_of_its_statement() -> None:
    row, kernel, ours = torch.tensor([[[[1.0, 2, 4]]]]), torch.tensor([[[[10.0, 1]]]]), solution("conv2d").conv2d
    assert ours(row, kernel).flatten().tolist() == [12, 24]
    assert ours(row, kernel, padding=(0, 1)).flatten().tolist() == [1, 12, 24, 40]
