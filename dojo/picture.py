"""A failed comparison to look at: expected, got and error of the slice around the worst element, as plain numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from dojo import rule

ROWS, COLUMNS = 24, 32


def picture(got: Tensor, expected: Tensor, allowed: Tensor, axes: tuple[str, ...]) -> dict[str, Any] | None:
    """Two axes of a comparison around its worst element; the error is in units of the allowed error.

    None where shapes or kinds differ, so that there is nothing to lay beside each other.
    """
    if got.shape != expected.shape or got.is_complex() or expected.is_complex() or not got.numel():
        return None
    got, expected = got.detach().cpu().double(), expected.double()
    error = rule.usage(got, expected, allowed)
    while got.dim() < 2:
        got, expected, error, axes = got[None], expected[None], error[None], ("", *axes)
    worst = torch.unravel_index(error.nan_to_num(nan=torch.inf).argmax(), error.shape)
    where = tuple(int(index) for index in worst)
    windows = [slice(start := max(0, min(at - most // 2, size - most)), start + most) for at, most, size in (
        (where[-2], ROWS, got.shape[-2]), (where[-1], COLUMNS, got.shape[-1]),
    )]  # fmt: skip
    cut = (*where[:-2], *windows)
    return {
        "axes": list(axes[-2:]),
        "at": {name: index for name, index in zip(axes[:-2], where[:-2], strict=True)},
        "first": [window.start for window in windows],
        "worst": list(where[-2:]),
        "expected": _numbers(expected[cut]),
        "got": _numbers(got[cut]),
        "error": _numbers(error[cut]),
    }


def _numbers(table: Tensor) -> list[list[float | str]]:
    """Four digits of each; what JSON has no number for, as a word."""
    return [[float(f"{v:.4g}") if math.isfinite(v) else str(v) for v in row] for row in table.tolist()]
