"""What a callable is called with: random inputs of one check, and one use of it in words."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from dojo.contracts.checks import tolerance
from dojo.judge.protocol import mapped
from dojo.verdict.axes import named_shape


class Draw:
    """Random inputs of one check; the same seed draws the same."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> Tensor:
        """Float32 normal of this standard deviation."""
        return torch.randn(shape, generator=self.generator) * scale

    def uniform(self, *shape: int, low: float = 0.0, high: float = 1.0) -> Tensor:
        """Float32 uniform in [low, high)."""
        return torch.rand(shape, generator=self.generator) * (high - low) + low

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
        """Integers in [low, high)."""
        return torch.randint(low, high, shape, generator=self.generator, dtype=dtype)

    def positions(self, high: int, *shape: int) -> Tensor:
        """Distinct, unsorted integers in [0, high) along the last axis."""
        *leading, seq = shape
        rows = [torch.randperm(high, generator=self.generator)[:seq] for _ in range(max(1, math.prod(leading)))]
        return torch.stack(rows).reshape(shape)

    def random(self) -> random.Random:
        """A source of plain random choices."""
        return random.Random(self.seed)

    def mask(self, *shape: int, share: float = 0.6, dead_row: bool = False) -> Tensor:
        """True with this probability, and somewhere in every row; with `dead_row` the second row attends to nothing."""
        mask = torch.rand(shape, generator=self.generator) < share
        mask[..., -1] |= ~mask.any(-1)
        if dead_row:
            mask[..., 1, :] = False
        return mask


@dataclass(frozen=True)
class Call:
    """One use of a callable: constructor arguments, parameters by name, and inputs by name in their order.

    The inputs named in `wide` are float32 where the others are in half precision, as statistics of rows are kept.
    """

    inputs: dict[str, Any]
    init: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Tensor] = field(default_factory=dict)
    wide: tuple[str, ...] = ()

    def cast(self, dtype: torch.dtype) -> Call:
        """The same call with its floating tensors rounded to `dtype`."""
        inputs = tolerance.cast(self.inputs, dtype, self.wide)
        return replace(self, inputs=inputs, params=tolerance.cast(self.params, dtype))

    def to(self, device: str) -> Call:
        """The same call with its tensors on this device."""
        moved = mapped(lambda v: v.to(device) if isinstance(v, Tensor) else v, self.inputs)
        return replace(self, inputs=moved, params={k: v.to(device) for k, v in self.params.items()})

    def with_inputs(self, **inputs: Any) -> Call:
        """The same call with some inputs replaced."""
        return replace(self, inputs=self.inputs | inputs)

    def with_params(self, **params: Tensor) -> Call:
        """The same call with some parameters replaced."""
        return replace(self, params=self.params | params)

    def describe(self, axes: dict[str, str], device: str) -> str:
        """The input in words: constructor arguments, then each tensor with its axes by name."""
        parts = [f"{k}={v}" for k, v in self.init.items()]
        for name, value in tolerance.named_leaves(self.inputs).items():
            if isinstance(value, Tensor):
                shape = named_shape(value, axes.get(name.partition("[")[0], ""))
                parts.append(f"{name} ({shape}) {str(value.dtype).removeprefix('torch.')}")
            elif value is not None:
                parts.append(f"{name}={value}")
        return ", ".join(parts) + ("" if device == "cpu" else f", on {device}")
