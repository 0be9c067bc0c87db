"""A failed comparison as all parts of its description read it, and the words for its dtypes, numbers and axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

Detector = Callable[["Mismatch"], str | None]  # a sentence about a mismatch, None where it would not be true


@dataclass(frozen=True)
class Mismatch:
    """The two tensors in float64 on the CPU, complex numbers as real pairs, beside the values as they came."""

    raw_got: Tensor
    raw_expected: Tensor
    got: Tensor
    expected: Tensor
    allowed: Tensor
    wrong: Tensor
    excess: Tensor  # of the wrong elements the error in units of the allowed error, which may be infinite; else 0
    axes: tuple[str, ...]
    inputs: Mapping[str, Tensor]

    @property
    def exact(self) -> bool:
        """Whether the elements are truth values or integers, of which none may be off."""
        return not self.raw_expected.is_floating_point()

    @property
    def boolean(self) -> bool:
        """Whether the elements are truth values."""
        return self.raw_expected.dtype == torch.bool

    @property
    def long_axes(self) -> list[int]:
        """The axes with more than one place, the last one first."""
        return [a for a in reversed(range(self.got.ndim)) if self.got.shape[a] > 1]

    @cached_property
    def worst(self) -> tuple[int, ...]:
        """The index of the worst element."""
        return index_of(self.excess.flatten().argmax(), self.got.shape)

    def got_is(self, other: Tensor, allowed: Tensor) -> bool:
        """Whether the attempt's whole result is `other`, twice the allowed error being granted to a guess."""
        allowed = 2 * allowed.expand_as(self.got)
        other, at = other.expand_as(self.got), self.worst  # one element refutes most guesses
        return all(bool(near(self.got[i], other[i], allowed[i]).all()) for i in (at, ...))


def compare(
    got: Tensor, expected: Tensor, allowed: Tensor, ratio: Tensor, axes: tuple[str, ...], inputs: Mapping[str, Any]
) -> Mismatch:
    """Two tensors of one shape and kind; `ratio` is the error in units of the allowed error, element by element."""
    paired = expected.is_complex()
    got, expected = as_real(got), as_real(expected)
    g, e = got.double(), expected.double()
    if paired:  # a ratio is that of the whole number: the part that is right has none of it
        allowed, ratio, axes = allowed.unsqueeze(-1), ratio.unsqueeze(-1), (*axes, "re/im")
        ratio = torch.where((g == e) | (g.isnan() & e.isnan()), 0.0, ratio)
    ratio = ratio.double()
    wrong = ~(ratio <= 1)
    excess = torch.where(wrong, ratio.nan_to_num(math.inf, math.inf), 0.0)
    tensors = {name: as_real(dense(t)) for name, t in inputs.items() if isinstance(t, Tensor)}
    return Mismatch(got, expected, g, e, allowed.double().broadcast_to(e.shape), wrong, excess, axes, tensors)


def dense(t: Tensor) -> Tensor:
    """The tensor without its gradient, strided, on the CPU."""
    t = t.detach()
    return (t if t.layout == torch.strided else t.to_dense()).cpu()


def as_real(t: Tensor) -> Tensor:
    """Complex numbers as real pairs along a new last axis; other tensors as they are."""
    return torch.view_as_real(t.resolve_conj()) if t.is_complex() else t


def near(x: Tensor, y: Tensor, allowed: Tensor) -> Tensor:
    """Element by element: within the allowed error, or the same infinity, or both nan."""
    return ((x - y).abs() <= allowed) | (x == y) | (x.isnan() & y.isnan())


def index_of(flat: Tensor, shape: torch.Size) -> tuple[int, ...]:
    """The index, in a tensor of this shape, of an element of the flattened tensor."""
    at, index = int(flat), []
    for size in reversed(shape):  # torch.unravel_index imports sympy, which takes half a second
        at, here = divmod(at, size)
        index.append(here)
    return tuple(reversed(index))


def kind(t: Tensor) -> str:
    """What the elements are: bool, integer, floating point or complex."""
    if t.dtype == torch.bool:
        return "bool"
    return "complex" if t.is_complex() else "floating point" if t.is_floating_point() else "integer"


def dtype_name(t: Tensor) -> str:
    """The dtype as in `torch.float32`, without its module."""
    return str(t.dtype).removeprefix("torch.")


def number(x: float | int | bool, other: float | int | bool = math.inf) -> str:
    """`x` in as few digits as keep it apart from `other`."""
    if not isinstance(x, float) or not math.isfinite(x):
        return str(x)
    digits = next((d for d in (5, 7, 9, 12) if f"{x:.{d}g}" != f"{other:.{d}g}"), 17)
    return f"{x:.{digits}g}"


def value_range(t: Tensor) -> str:
    """The smallest and the largest element: `from 2 to 3`."""
    return f"from {float(t.min()):.3g} to {float(t.max()):.3g}"


def multiple(x: float) -> str:
    """An error in units of the allowed error, in two digits: `3.4`, `120`, `1e6`."""
    if 1 < x < 1.05:
        return "just over 1"
    text = f"{x:.0f}" if 10 <= x < 1000 else f"{x:.2g}"
    mantissa, _, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else text


def singular(axis: str) -> str:
    """The name of one place on an axis: head of heads, query of queries."""
    if axis.endswith("ies"):
        return axis[:-3] + "y"
    return axis[:-1] if axis.endswith("s") and not axis.endswith(("ss", "is", "us", "pos")) else axis


def enumerated(items: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
