"""The error rule: how far an attempt may be from the oracle, element by element.

    allowed = 16 b + 32 eps (|r| + rms) + 16 s

`r` is the oracle in float64, on inputs that were first rounded to the dtype under test; `b` is the worst error, in the
same row, of an ensemble of accepted evaluations in that dtype; `rms` is the row's root mean square; `s` is how much
the oracle itself moves, in that row, when its inputs move by one unit in the last place. There is no absolute
tolerance: a row of zeros allows zeros alone. A row is the last dimension.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from dojo.judge.protocol import leaves, mapped

PERTURBATIONS = 2
SMALL = 0.5  # of what is allowed by the ensemble so far: nearer than this, the rest of it need not be asked
HALF = (torch.float16, torch.bfloat16)
UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)  # which PyTorch compares with no signed integer
Values = dict[str, Any]
Formula = Callable[..., Any]  # a tensor, or several results
Cotangents = Callable[[Values], Values]  # of results: one for each floating one


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The arithmetic that an attempt is held to: float64 inputs may be computed in float32."""
    return torch.float32 if dtype is torch.float64 else dtype


def cast(values: Values, dtype: torch.dtype, wide: Sequence[str] = ()) -> Values:
    """`values` with every floating tensor in `dtype`, detached; those named in `wide` in float32 at least."""
    wider = torch.promote_types(dtype, torch.float32)

    def to(kind: torch.dtype, value: Any) -> Any:
        return mapped(lambda v: v.detach().to(kind) if is_floating(v) else v, value)

    return {name: to(wider if name in wide else dtype, value) for name, value in values.items()}


def named_leaves(values: Values) -> Values:
    """What values hold at their ends: a list's tensors go by `grads[0]`."""
    return {path: leaf for name, value in values.items() for path, leaf in leaves(value, name).items()}


def named_results(result: Any, names: Sequence[str]) -> Values:
    """What a call gave, by name: several results by `names`, a single one as `result`."""
    return named_leaves(dict(zip(names, result, strict=True)) if names else {"result": result})


def evaluate(
    formula: Formula,
    init: Values,
    params: Values,
    inputs: Values,
    cotangents_of: Cotangents | None = None,
    results: Sequence[str] = (),
    constants: Sequence[str] = (),
) -> Values:
    """The results of a formula, and with their cotangents also its vector-Jacobian products, by name.

    Keys are `result`, or the names of several, and `gradient of NAME` for each floating tensor among inputs and
    parameters that is no constant. Cotangents of other shapes than the results', as only wrong ones can have had, give
    no products.
    """
    gradients = cotangents_of is not None
    params, inputs = (
        {k: mapped(partial(_leaf, grad=gradients and k not in constants), v) for k, v in d.items()}
        for d in (params, inputs)
    )
    with torch.set_grad_enabled(gradients):
        made = named_results(formula(init, params, **inputs), results)
    found = {name: value.detach() if isinstance(value, Tensor) else value for name, value in made.items()}
    if cotangents_of is None:
        return found
    cotangents = cotangents_of(found)
    if all(made[name].shape == cotangent.shape for name, cotangent in cotangents.items()):
        sources = {k: v for k, v in named_leaves(inputs | params).items() if is_floating(v) and v.requires_grad}
        grads = pull_back([(made[name], each) for name, each in cotangents.items()], list(sources.values()))
        for (name, source), grad in zip(sources.items(), grads, strict=True):
            found[f"gradient of {name}"] = torch.zeros_like(source) if grad is None else grad
    return found


def pull_back(pairs: Sequence[tuple[Tensor, Tensor]], sources: list[Tensor]) -> Sequence[Tensor | None]:
    """The vector-Jacobian products of results and their cotangents for each source, None where nothing flows back."""
    # A scalar needs no grad_outputs, for which torch would first import half a second of symbolic shapes.
    sums = [(result * cotangent.to(result)).sum() for result, cotangent in pairs if result.requires_grad]
    return torch.autograd.grad(sum(sums[1:], sums[0]), sources, allow_unused=True) if sums else [None] * len(sources)


class Budget:
    """What the oracle gives for one call, and how far an attempt may be from it.

    `exact` holds the oracle's values in float64, by name of result and as `gradient of NAME`; `cotangents` are what the
    gradients are pulled back from. What is no floating tensor must be equal. `params` and `inputs` are already rounded
    to `dtype`. With `rounded_once`, half precision is held to float32 arithmetic and one rounding to `dtype`, instead
    of to the ensemble in half precision. Inputs named in `wide` are float32 at least, for the ensemble too.
    """

    def __init__(
        self,
        oracle: Formula,
        variants: Sequence[Formula],
        init: Values,
        params: Values,
        inputs: Values,
        cotangents_of: Cotangents | None,
        dtype: torch.dtype,
        generator: torch.Generator,
        rounded_once: bool = False,
        results: Sequence[str] = (),
        constants: Sequence[str] = (),
        wide: Sequence[str] = (),
    ) -> None:
        self.oracle, self.variants, self.init, self.dtype = oracle, variants, init, dtype
        self.params, self.inputs, self.cotangents_of = params, inputs, cotangents_of
        self.results, self.constants, self.wide = results, constants, wide
        self.once = rounded_once and dtype in HALF
        self.arithmetic = torch.float32 if self.once else compute_dtype(dtype)
        self.cotangents: Values = {}
        self.exact_params, self.exact_inputs = cast(params, torch.float64), cast(inputs, torch.float64)
        self.exact = self._evaluate(oracle, self.exact_params, self.exact_inputs)
        # What is drawn later, for some attempts and not for others, must not change the inputs that follow.
        self._seed = int(torch.randint(2**62, (), generator=generator))
        self._spreads = [{k: torch.zeros_like(v) for k, v in self.exact.items() if is_floating(v)}]
        self._members = self._ensemble()

    def usage(self, name: str, got: Any) -> float | None:
        """The error in units of the allowed error, at most, where it is small beyond doubt; else None.

        What is allowed only grows with the ensemble, so its members are evaluated until the error is small. For most
        right results none is.
        """
        expected = self.exact[name]
        if not is_floating(got) or not is_floating(expected) or got.shape != expected.shape:
            return None
        for spread in self._growing():
            ratio = error_ratio(got, expected, self._floor(name) + 16 * spread[name])
            worst = float(ratio.max()) if ratio.numel() else 0.0
            if worst <= SMALL:
                return worst
        return None

    def allowed(self, name: str) -> Tensor | None:
        """The allowed error of each element, in float64; None for what must be equal."""
        if not is_floating(self.exact[name]):
            return None
        *_, whole = self._growing()
        return self._floor(name) + 16 * whole[name]

    def _floor(self, name: str) -> Tensor:
        """What is allowed whatever the ensemble does."""
        value = self.exact[name]
        size = _finite(value).abs()
        floor = 32 * torch.finfo(self.arithmetic).eps * (size + _rms(value)) + _smallest(self.arithmetic)
        if self.once:
            floor = floor + 2 * torch.finfo(self.dtype).eps * size + 4 * _smallest(self.dtype)
        return floor

    def _growing(self) -> Iterator[Values]:
        """What each member of the ensemble adds to what is allowed, before 16 times: none, the first, the first two."""
        yield from self._spreads
        for spread in self._members:
            self._spreads.append(spread)
            yield spread

    def _ensemble(self) -> Iterator[Values]:
        """The worst errors of the accepted evaluations, then with how far the oracle moves with its inputs."""
        errors = moves = self._spreads[0]
        low_params, low_inputs = cast(self.params, self.arithmetic), cast(self.inputs, self.arithmetic, self.wide)
        members = [(variant, low_params, low_inputs) for variant in self.variants]
        if self.arithmetic in HALF:
            members.append((self.variants[0], cast(self.params, torch.float32), cast(self.inputs, torch.float32)))
        for variant, params, inputs in members:
            values = cast(self._evaluate(variant, params, inputs), self.arithmetic)
            errors = {k: self._worse(worst, k, values[k]) for k, worst in errors.items()}
            yield {k: _row(worst) for k, worst in errors.items()}
        ulp, generator = torch.finfo(self.arithmetic).eps, torch.Generator().manual_seed(self._seed)
        wider = min(ulp, torch.finfo(torch.float32).eps)
        for _ in range(PERTURBATIONS):
            params, inputs = (_nudged(d, ulp, generator) for d in (self.exact_params, self.exact_inputs))
            inputs |= _nudged({name: self.exact_inputs[name] for name in self.wide}, wider, generator)
            values = self._evaluate(self.oracle, params, inputs)
            moves = {k: self._worse(worst, k, values[k]) for k, worst in moves.items()}
            yield {k: _row(worst) + _row(moves[k]) for k, worst in errors.items()}

    def _worse(self, worst: Tensor, name: str, value: Tensor) -> Tensor:
        """The worst errors so far and those of one more evaluation."""
        return torch.fmax(worst, (value.double() - self.exact[name]).abs())

    def _evaluate(self, formula: Formula, params: Values, inputs: Values) -> Values:
        cotangents_of = self.cotangents_of and self._cotangents
        return evaluate(formula, self.init, params, inputs, cotangents_of, self.results, self.constants)

    def _cotangents(self, found: Values) -> Values:
        """The cotangents, made for the first results, which are the oracle's."""
        if not self.cotangents and self.cotangents_of is not None:
            self.cotangents = cast(self.cotangents_of(found), self.dtype)
        return self.cotangents


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
    return value.detach().requires_grad_(grad) if is_floating(value) else value


def _nudged(values: Values, ulp: float, generator: torch.Generator) -> Values:
    def nudged(v: Any) -> Any:
        if not is_floating(v):
            return v
        return v * (1 + ulp * (torch.randint(0, 2, v.shape, generator=generator) * 2.0 - 1))

    return mapped(nudged, values)


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


_known: dict[Hashable, tuple[Any, Tensor]] = {}
MOST_KNOWN = 4000


def cached(key: Hashable, compute: Callable[[], Any], generator: torch.Generator) -> Any:
    """What `compute` gives for a key, within a grading and the next; the generator ends as `compute` left it."""
    value, state = remembered(key, lambda: (compute(), generator.get_state()))
    generator.set_state(state)
    return value


def remembered(key: Hashable, compute: Callable[[], Any]) -> Any:
    """What `compute` gives for a key, within a grading and the next."""
    if key not in _known:
        if len(_known) >= MOST_KNOWN:
            _known.clear()
        _known[key] = compute()
    return _known[key]


def forget() -> None:
    """Let go what is known: of another kata nothing of it will be asked again."""
    _known.clear()


def value_key(value: Any) -> Hashable:
    """A key that is equal for equal values: tensors by dtype, shape and a digest of their bytes."""
    if isinstance(value, Tensor):
        dense = value.detach().contiguous()
        data = ctypes.string_at(dense.data_ptr(), dense.nbytes)
        return value.dtype, tuple(value.shape), hashlib.blake2b(data, digest_size=16).digest()
    if isinstance(value, dict):
        return tuple((name, value_key(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(map(value_key, value))
    return value
