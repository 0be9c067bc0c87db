"""The error rule, by properties: any order of a sum passes, any formula off by a thousandth fails, in every dtype."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dojo.contracts.checks import tolerance

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
seeds = st.integers(0, 2**31)
sizes = st.integers(2, 200)
everywhere = settings(max_examples=40, derandomize=True)  # a run of CI is no lottery


def weighted_sum(init: dict, params: dict, x: Tensor, w: Tensor) -> Tensor:
    """Σ w x over the last axis, in float32 at least and rounded once."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x.to(wide) * w.to(wide)).sum(-1, keepdim=True).to(x.dtype)


def product(init: dict, params: dict, x: Tensor, w: Tensor) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x.to(wide) @ w.to(wide).mT).diagonal(dim1=-2, dim2=-1)[..., None].to(x.dtype)


def by_halves(init: dict, params: dict, x: Tensor, w: Tensor) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    terms = x.to(wide) * w.to(wide)
    half = terms.shape[-1] // 2
    return (terms[..., :half].sum(-1, keepdim=True) + terms[..., half:].sum(-1, keepdim=True)).to(x.dtype)


VARIANTS = [weighted_sum, product, by_halves]


def made(seed: int, size: int, dtype: torch.dtype, positive: bool = False) -> tuple[dict, dict, torch.Generator]:
    generator = torch.Generator().manual_seed(seed)
    x, w = torch.randn(3, size, generator=generator), torch.randn(3, size, generator=generator)
    inputs = {"x": x.abs() if positive else x, "w": w.abs() + 0.1 if positive else w}
    return inputs, tolerance.cast(inputs, dtype), generator


def used(got: Tensor, inputs: dict, dtype: torch.dtype, generator: torch.Generator, once: bool = False) -> float:
    budget = tolerance.Budget(weighted_sum, VARIANTS, {}, {}, inputs, None, dtype, generator, rounded_once=once)
    ratio = float(tolerance.error_ratio(got, budget.exact["result"], budget.allowed("result")).max())
    at_most = budget.usage("result", got)
    assert at_most is None or ratio <= at_most, "what needs no ensemble is allowed with it too"
    return ratio


@pytest.mark.parametrize("dtype", DTYPES)
@everywhere
@given(seeds, sizes)
def test_any_order_of_a_sum_passes(dtype: torch.dtype, seed: int, size: int) -> None:
    _, inputs, generator = made(seed, size, dtype)
    wide = tolerance.compute_dtype(torch.promote_types(dtype, torch.float32))
    terms = (inputs["x"].to(wide) * inputs["w"].to(wide))[:, torch.randperm(size, generator=generator)]
    total = torch.zeros(3, 1, dtype=wide)
    for column in terms.split(1, dim=-1):  # one after the other, the least accurate sum there is
        total = total + column
    for once in (False, True):
        assert used(total.to(dtype), inputs, dtype, generator, once) < 1


@pytest.mark.parametrize("dtype", DTYPES)
@everywhere
@given(seeds, sizes)
def test_any_formula_off_by_a_thousandth_fails_or_by_three_roundings_where_they_are_larger(
    dtype: torch.dtype, seed: int, size: int
) -> None:
    _, inputs, generator = made(seed, size, dtype, positive=True)
    exact = weighted_sum({}, {}, **tolerance.cast(inputs, torch.float64))
    # Half precision rounds by up to half a thousandth or four, so there it takes three such roundings to tell.
    off = max(1e-3, 3 * torch.finfo(dtype).eps)
    for factor in (1 + off, 1 - off):
        assert used((exact * factor).to(dtype), inputs, dtype, generator, once=True) > 1


@everywhere
@given(seeds, sizes, st.sampled_from(DTYPES))
def test_the_oracle_rounded_once_passes_and_nothing_that_is_not_finite_does(
    seed: int, size: int, dtype: torch.dtype
) -> None:
    _, inputs, generator = made(seed, size, dtype)
    exact = weighted_sum({}, {}, **tolerance.cast(inputs, torch.float64)).to(dtype)
    assert used(exact, inputs, dtype, generator) < 1
    for strange in (torch.nan, torch.inf, -torch.inf):
        got = exact.clone()
        got[1] = strange
        assert used(got, inputs, dtype, generator) == torch.inf


@everywhere
@given(seeds, sizes, st.floats(1e-30, 1e30))
def test_units_do_not_matter(seed: int, size: int, scale: float) -> None:
    inputs, _, generator = made(seed, size, torch.float32)
    state = generator.get_state()
    wrong = weighted_sum({}, {}, **inputs) * 1.001
    first = used(wrong, inputs, torch.float32, generator)
    generator.set_state(state)
    power = 2.0 ** round(torch.tensor(scale).log2().item())
    scaled = {"x": inputs["x"] * power, "w": inputs["w"]}
    assert used(wrong * power, scaled, torch.float32, generator) == pytest.approx(first, rel=1e-3)


def test_a_row_of_zeros_allows_zeros_alone() -> None:
    inputs = {"x": torch.zeros(3, 5), "w": torch.ones(3, 5)}
    generator = torch.Generator().manual_seed(0)
    assert used(torch.zeros(3, 1), inputs, torch.float32, generator) == 0
    assert used(torch.full((3, 1), 1e-30), inputs, torch.float32, generator) > 1
