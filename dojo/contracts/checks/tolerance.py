"""The error rule: how far an attempt may be from the oracle, element by element.

    allowed = 16 b + 32 eps (|r| + rms) + 16 s

`r` is the oracle in float64, on inputs that were first rounded to the dtype under test; `b` is the worst error, in the
same row, of an ensemble of accepted evaluations in that dtype; `rms` is the row's root mean square; `s` is how much
the oracle itself moves, in that row, when its inputs move by one unit in the last place. There is no absolute
tolerance: a row of zeros allows zeros alone. A row is the last dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

PERTURBATIONS = 2
HALF = (torch.float16, torch.bfloat16)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # which PyTorch compares with no signed integer
Values = dict[str, Any]
Formula = Callable[..., Tensor]


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The arithmetic that an attempt is held to: float64 inputs may be computed in float32."""
    return torch.float32 if dtype is torch.float64 else dtype


def cast(values: Values, dtype: torch.dtype) -> Values:
    """`values` with every floating tensor in `dtype`, detached."""
    return {k: v.detach().to(dtype) if is_floating(v) else v for k, v in values.items()}


def evaluate(formula: Formula, init: Values, params: Values, inputs: Values, cotangent: Tensor | None) -> Values:
    """The result of a formula, and with a cotangent also its vector-Jacobian products, by name.

    Keys are `result` and `gradient of NAME` for each floating tensor among inputs and parameters. A cotangent of
    another shape than the result's, as only a wrong result can have had, gives no products.
    """
    params, inputs = ({k: _leaf(v, cotangent is not None) for k, v in d.items()} for d in (params, inputs))
    with torch.set_grad_enabled(cotangent is not None):
        result = formula(init, params, **inputs)
    found = {"result": result.detach()}
    if cotangent is not None and cotangent.shape == result.shape:
        sources = {k: v for k, v in (inputs | params).items() if is_floating(v)}
        grads = pull_back(result, cotangent, list(sources.values()))
        for (name, source), grad in zip(sources.items(), grads, strict=True):
            found[f"gradient of {name}"] = torch.zeros_like(source) if grad is None else grad
    return found


def pull_back(result: Tensor, cotangent: Tensor, sources: list[Tensor]) -> tuple[Tensor | None, ...]:
    """The vector-Jacobian product of `result` for each source, None where nothing flows back to it."""
    # A scalar needs no grad_outputs, for which torch would first import half a second of symbolic shapes.
    return torch.autograd.grad((result * cotangent.to(result)).sum(), sources, allow_unused=True)


def budget(
    oracle: Formula,
    variants: Sequence[Formula],
    init: Values,
    params: Values,
    inputs: Values,
    cotangent: Tensor | None,
    dtype: torch.dtype,
    generator: torch.Generator,
    rounded_once: bool = False,
) -> dict[str, tuple[Tensor, Tensor]]:
    """The oracle's values and the allowed errors, both float64, for the result and each gradient.

    `params` and `inputs` are already rounded to `dtype`. With `rounded_once`, half precision is held to float32
    arithmetic and one rounding to `dtype`, instead of to the ensemble in half precision.
    """
    exact_params, exact_inputs = cast(params, torch.float64), cast(inputs, torch.float64)
    exact_cotangent = None if cotangent is None else cotangent.double()
    exact = evaluate(oracle, init, exact_params, exact_inputs, exact_cotangent)
    once = rounded_once and dtype in HALF
    arithmetic = torch.float32 if once else compute_dtype(dtype)
    errors = {k: torch.zeros_like(v) for k, v in exact.items()}

    low_params, low_inputs = cast(params, arithmetic), cast(inputs, arithmetic)
    members = [(variant, low_params, low_inputs) for variant in variants]
    if arithmetic in HALF:
        members.append((variants[0], cast(params, torch.float32), cast(inputs, torch.float32)))
    for variant, some_params, some_inputs in members:
        for name, value in evaluate(variant, init, some_params, some_inputs, cotangent).items():
            errors[name] = torch.fmax(errors[name], (value.to(arithmetic).double() - exact[name]).abs())

    moves = {k: torch.zeros_like(v) for k, v in exact.items()}
    ulp = torch.finfo(arithmetic).eps
    for _ in range(PERTURBATIONS):
        moved_params, moved_inputs = (_nudged(d, ulp, generator) for d in (exact_params, exact_inputs))
        for name, value in evaluate(oracle, init, moved_params, moved_inputs, exact_cotangent).items():
            moves[name] = torch.fmax(moves[name], (value - exact[name]).abs())

    allowances = {}
    for name, value in exact.items():
        allowed = 16 * _row(errors[name]) + 16 * _row(moves[name])
        allowed = allowed + 32 * ulp * (_finite(value).abs() + _rms(value)) + _smallest(arithmetic)
        if once:
            allowed = allowed + 2 * torch.finfo(dtype).eps * _finite(value).abs() + 4 * _smallest(dtype)
        allowances[name] = (value, allowed)
    return allowances


def error_ratio(got: Tensor, expected: Tensor, allowed: Tensor | None) -> Tensor:
    """Error in units of the allowed error, element by element; infinite where finiteness differs.

    `allowed=None` asks for equality: 0 where it holds and infinity where not.
    """
    if allowed is None:
        got = got.long() if got.dtype in UNSIGNED else got
        return torch.where((got == expected) | (got != got) & (expected != expected), 0.0, torch.inf)
    got, expected = got.double(), expected.double()
    ratio = (got - expected).abs() / allowed
    if bool((ratio <= 1).all()):
        return ratio
    same = (got == expected) | (got.isnan() & expected.isnan())
    error = torch.where(same, 0.0, (got - expected).abs())
    ratio = torch.where(error == 0, 0.0, error / allowed)
    return torch.where(same | (got.isfinite() & expected.isfinite()), ratio, torch.inf)


def is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _leaf(value: Any, grad: bool) -> Any:
    return value.detach().clone().requires_grad_(grad) if is_floating(value) else value


def _nudged(values: Values, ulp: float, generator: torch.Generator) -> Values:
    def nudge(t: Tensor) -> Tensor:
        return t * (1 + ulp * (torch.randint(0, 2, t.shape, generator=generator) * 2.0 - 1))

    return {k: nudge(v) if is_floating(v) else v for k, v in values.items()}


def _finite(value: Tensor) -> Tensor:
    return torch.nan_to_num(value, nan=0.0, posinf=0.0, neginf=0.0)


def _row(value: Tensor) -> Tensor:
    value = _finite(value)
    return value.amax(-1, keepdim=True) if value.dim() and value.numel() else value


def _rms(value: Tensor) -> Tensor:
    value = _finite(value)
    if not value.dim():
        return value.abs()
    scale = value.abs().amax(-1, keepdim=True).clamp_min(1e-300)  # squares of float32's largest values still fit
    return scale * (value / scale).square().mean(-1, keepdim=True).sqrt()


def _smallest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
