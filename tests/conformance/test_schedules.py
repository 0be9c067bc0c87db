"""The schedules against those of transformers, which give factors, rise again behind the end and have a warmup of
their own in the stable one; and their known values."""

from __future__ import annotations

import pytest
import torch
from transformers import get_cosine_with_min_lr_schedule_with_warmup, get_wsd_schedule

from tests.conformance.agreement import solution

HIGH, LOW, TOTAL = 3e-4, 3e-5, 97


def rates(make, **settings) -> list[float]:
    """The learning rates of steps 0 to TOTAL."""
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=HIGH)
    schedule = make(optimiser, **settings)
    found = []
    for _ in range(TOTAL + 1):
        found += schedule.get_last_lr()
        optimiser.step()
        schedule.step()
    return found


@pytest.mark.parametrize("warmup", [0, 13])
def test_cosine_is_that_of_transformers(warmup: int) -> None:
    settings = {"num_warmup_steps": warmup, "num_training_steps": TOTAL, "min_lr": LOW}
    ours = [solution("schedules").warmup_cosine(step, HIGH, LOW, warmup, TOTAL) for step in range(TOTAL + 1)]
    assert ours == pytest.approx(rates(get_cosine_with_min_lr_schedule_with_warmup, **settings), rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("shape", ["linear", "1-sqrt"])
def test_stable_schedule_is_that_of_transformers_behind_the_warmup(shape: str) -> None:
    warmup, decay = 13, 21
    settings = {"num_warmup_steps": warmup, "num_training_steps": TOTAL, "num_decay_steps": decay, "decay_type": shape}
    ours = [
        solution("schedules").warmup_stable_decay(step, HIGH, LOW, warmup, decay, TOTAL, shape)
        for step in range(TOTAL + 1)
    ]
    theirs = rates(get_wsd_schedule, **settings, min_lr_ratio=LOW / HIGH)
    assert ours[warmup:] == pytest.approx(theirs[warmup:], rel=1e-12)
    assert ours[0] == 0


def test_schedules_have_their_known_values() -> None:
    ours = solution("schedules")
    cosine = [ours.warmup_cosine(step, 1.0, 0.1, 2, 6) for step in range(8)]
    stable = [ours.warmup_stable_decay(step, 1.0, 0.1, 2, 4, 8) for step in range(9)]
    assert cosine == pytest.approx([0, 0.5, 1, 0.8682, 0.55, 0.2318, 0.1, 0.1], abs=1e-4)
    assert stable == pytest.approx([0, 0.5, 1, 1, 1, 0.775, 0.55, 0.325, 0.1])
