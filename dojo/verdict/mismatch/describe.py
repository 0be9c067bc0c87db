"""Describes a failed comparison: the facts, the first and the worst element, what the wrong ones share, a map."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from dojo.verdict.mismatch.comparison import (
    Mismatch,
    compare,
    dense,
    dtype_name,
    enumerated,
    index_of,
    kind,
    multiple,
    number,
    singular,
)
from dojo.verdict.mismatch.patterns import patterns
from dojo.verdict.mismatch.text_map import text_map
from dojo.verdict.types import Label, Section

ENDLESS = 1e12  # times the allowed error: nothing but the exact number is allowed


def describe(
    got: Tensor,
    expected: Tensor,
    allowed: Tensor,
    ratio: Tensor | None,
    axes: tuple[str, ...],
    inputs: Mapping[str, Any],
) -> list[Section]:
    """The sections FACTS, ELEMENTS, PATTERN and MAP, each only where it has something to say. Never raises.

    `expected` is the oracle's tensor (float64, or bool or int64), `allowed` the error granted to each element, zero
    for exact types, and `ratio` the error in units of it; `axes` are distinct names, one an axis of `expected`;
    `inputs` are those of the call, by name. Where shape or kind of dtype differ, only the facts are told: comparing
    values would have no meaning, and `ratio` may be None.
    """
    try:
        return list(sections(got, expected, allowed, ratio, axes, inputs))
    except Exception as fault:  # a description that fails must not turn a wrong attempt into a fault of the grader
        where = f"got {_shape_and_dtype(got)}, expected {_shape_and_dtype(expected)}"
        return [Section(Label.FACTS, f"{where} (no more to say: describing failed with {type(fault).__name__})")]


def sections(
    got: Tensor,
    expected: Tensor,
    allowed: Tensor,
    ratio: Tensor | None,
    axes: tuple[str, ...],
    inputs: Mapping[str, Any],
) -> Iterator[Section]:
    """The same one by one, and not safe from raising."""
    got, expected = dense(got), dense(expected)
    if ratio is None or got.shape != expected.shape or kind(got) != kind(expected):
        yield Section(Label.FACTS, "\n".join(_misfits(got, expected, axes)))
        return
    m = compare(got, expected, dense(allowed), dense(ratio), axes, inputs)
    yield Section(Label.FACTS, "\n".join([_shape_and_dtype(got), *_finiteness(m)]))
    if not m.wrong.any():
        return
    yield Section(Label.ELEMENTS, "\n".join(_elements(m)))
    if found := patterns(m):
        yield Section(Label.PATTERN, "\n".join(found))
    if drawn := text_map(m):
        yield Section(Label.MAP, drawn)


def _misfits(got: Tensor, expected: Tensor, names: tuple[str, ...]) -> Iterator[str]:
    if got.shape != expected.shape:
        hint = _shape_hint(tuple(got.shape), tuple(expected.shape), names)
        yield f"shape: got {tuple(got.shape)}, expected {tuple(expected.shape)}{hint and ': ' + hint}"
    if kind(got) != kind(expected):
        same = got.shape == expected.shape and not got.is_complex() and not expected.is_complex()
        hint = _dtype_hint(got.double(), expected.double()) if same else ""
        article = "an integer type" if kind(expected) == "integer" else f"a {kind(expected)} type"
        yield f"dtype: got {dtype_name(got)}, expected {'bool' if kind(expected) == 'bool' else article}{hint}"


def _dtype_hint(got: Tensor, expected: Tensor) -> str:
    if bool((got == expected).all()):
        return " (the values are right)"
    if bool((got == torch.where(expected == 0, -math.inf, 0.0)).all()):
        return " (the values are those of an additive mask: 0 for True and -inf for False)"
    return ""


def _shape_hint(got: tuple[int, ...], want: tuple[int, ...], names: tuple[str, ...]) -> str:
    """How one shape could have come from the other; the first explanation that fits."""
    for a in range(len(want)):
        if got == want[:a] + want[a + 1 :]:
            return f"the axis {names[a]} is missing"
    for a in range(len(got)):
        if got[a] == 1 and got[:a] + got[a + 1 :] == want:
            return f"an axis of size 1 too many, at place {a}"
    if len(got) != len(want):
        return _regrouped(got, want, names)
    differ = [a for a in range(len(want)) if got[a] != want[a]]
    if sorted(got) == sorted(want):
        if len(differ) == 2:
            last = len(want) > 2 and differ == [len(want) - 2, len(want) - 1]
            both = enumerated([names[a] for a in differ])
            return f"the last two axes ({both}) are swapped" if last else f"the axes {both} are swapped"
        return "the right sizes in another order"
    sizes = enumerated([f"{names[a]} has {got[a]}, not {want[a]}" for a in differ])
    if all(got[a] == 1 for a in differ):
        return f"{sizes} (it would broadcast, but has not been)"
    same = math.prod(got) == math.prod(want)
    return f"{sizes}; the number of elements is right" if same else sizes


def _regrouped(got: tuple[int, ...], want: tuple[int, ...], names: tuple[str, ...]) -> str:
    for a, b in combinations(range(len(want) + 1), 2):
        if b - a > 1 and got == (*want[:a], math.prod(want[a:b]), *want[b:]):
            return f"the axes {enumerated(list(names[a:b]))} are merged into one"
    for a, b in combinations(range(len(got) + 1), 2):
        if b - a > 1 and want == (*got[:a], math.prod(got[a:b]), *got[b:]):
            return f"the axis {names[a]} is split into {enumerated([str(s) for s in got[a:b]])}"
    counts = f"{len(got)} axes, not {len(want)}"
    return f"{counts}; the number of elements is right" if math.prod(got) == math.prod(want) else counts


def _finiteness(m: Mismatch) -> Iterator[str]:
    if m.exact:
        return
    for name, test in (("nan", torch.isnan), ("inf", torch.isposinf), ("-inf", torch.isneginf)):
        here, there = test(m.got), test(m.expected)
        if torch.equal(here, there):
            continue
        have, want = int(here.sum()), int(there.sum())
        against = (
            f"where the expected has {want or 'none'}" if have != want else "as many as expected, but not the same"
        )
        yield f"{have or 'none'} of {here.numel()} elements {'is' if have == 1 else 'are'} {name}, {against}"


def _elements(m: Mismatch) -> Iterator[str]:
    wrong = m.wrong.flatten()
    count, total = int(wrong.sum()), wrong.numel()
    yield f"{'all ' if count == total > 1 else ''}{count} of {total} elements {'is' if count == 1 else 'are'} off"
    first, worst = index_of(wrong.byte().argmax(), m.got.shape), m.worst
    if count == 1:
        yield _element(m, first)
    elif first == worst or m.exact:
        yield f"{'first' if m.exact else 'first and worst'} {_element(m, first)}"
    else:
        yield f"first {_element(m, first)}"
        yield f"worst {_element(m, worst)}"


def _element(m: Mismatch, at: tuple[int, ...]) -> str:
    place = ", ".join(f"{singular(name)} {i}" for name, i in zip(m.axes, at, strict=True))
    got, expected = m.raw_got[at].item(), m.raw_expected[at].item()
    units = float(m.excess[at])
    error = f", {multiple(units)} × allowed" if math.isfinite(units) and units < ENDLESS else ""
    exactly = "exactly " if expected == 0 and units >= ENDLESS else ""
    values = f"got {number(got, expected)}, expected {exactly}{number(expected, got)}{error}"
    return f"{f'[{place}]: ' if place else ''}{values}"


def _shape_and_dtype(t: object) -> str:
    return f"shape {tuple(t.shape)}, {dtype_name(t)}" if isinstance(t, Tensor) else f"a {type(t).__name__}"
