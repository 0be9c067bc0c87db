"""What `sigmoid`, `silu` and `gelu` must do. The oracles are torch's own in float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import WIDER, Ban, Call, Contract, Draw, Equivalent, Formula, KnownBugs

SIGMOIDS = (
    torch.sigmoid,
    lambda x: 0.5 * (1 + torch.tanh(x / 2)),
    lambda x: torch.where(x >= 0, 1 / (1 + torch.exp(-x.clamp(min=0))), 1 - 1 / (1 + torch.exp(x.clamp(max=0)))),
    lambda x: 1 / (1 + torch.exp(-x.clamp(min=-40))),  # far below zero a number that is none beside 1
)
IN_PYTHON = """
    torch._refs.sigmoid torch._refs.special.expit torch._refs.nn.functional.gelu torch._refs.nn.functional.softplus
    torch._decomp.decompositions.silu torch.distributions.transforms.SigmoidTransform._call
"""


def rounded_once(function: Callable[[Tensor], Tensor]) -> Formula:
    """The function in float32 at least."""
    return lambda init, params, x: function(x.to(torch.promote_types(x.dtype, torch.float32))).to(x.dtype)


class ActivationContract(Contract):
    ways: tuple[Callable[[Tensor], Tensor], ...]  # torch's own first
    ban = Ban(r"sigmoid|silu|gelu|softplus|expit|\bglu\b", tuple(IN_PYTHON.split()))
    rounded_once = True
    cases = {
        "around_zero": {"scale": 2.0},
        "a_few_deviations_out": {"shape": (2, 3, 7), "scale": 8.0},
        "far_from_zero": {"values": [-300.0, -90.0, -30.0, 0.0, -0.0, 1.0, 30.0, 90.0, 300.0]},
        "zero_alone": {"values": [0.0, 0.0, 0.0]},
    }
    hard_cases = {
        "very_far_from_zero": {"values": [-1e4, -300.0, 0.0, 1.0, 300.0, 1e4]},
        "far_below_zero": {"values": [-1e4, -1e3, -100.0, -1e4]},
    }
    more_shapes = {"one_number": {"shape": ()}, "one_entry": {"shape": (1,)}, "five_axes": {"shape": (2, 3, 1, 5, 4)}}
    near_300 = {"values": [300.0, -300.0, 6e4, -6e4, 12.0, -12.0]}
    grows = {"rows": "rows", "columns": "columns"}
    memory_in = "columns"
    timed = {"rows": 512, "columns": 512, "scale": 3.0}
    time_limit = 12.0

    @classmethod
    def complete(cls) -> None:
        super().complete()
        cls.variants = tuple(map(rounded_once, cls.ways))
        cls.oracle = cls.variants[0]

    @classmethod
    def call(
        cls, d: Draw, shape: tuple | None = None, rows: int = 3, columns: int = 5, scale: float = 1.0,
        values: list | None = None,
    ) -> Call:  # fmt: skip
        shape = (rows, columns) if shape is None else shape
        return Call({"x": scale * d.normal(*shape) if values is None else torch.tensor(values)})


class TestSigmoid(ActivationContract):
    name = "sigmoid"
    ways = SIGMOIDS


class TestSiLU(ActivationContract):
    name = "silu"
    ways = (F.silu, *(lambda x, sigmoid=sigmoid: x * sigmoid(x) for sigmoid in SIGMOIDS))


class TestGELU(ActivationContract):
    name = "gelu"
    ways = (
        F.gelu,
        lambda x: 0.5 * x * (1 + torch.erf(x * 0.5**0.5)),
        lambda x: x / 2 + x / 2 * torch.erf(x / 2**0.5),
    )


BUGS = KnownBugs(
    """
a sigmoid whose gradient is nan for large negative input
    autograd multiplies the factors of 1 / (1 + exp(-x)) one after another, and inf · 0 is nan.
    return torch.where(wide >= 0, right, left)  →  return (1 / (1 + torch.exp(-wide)))
    right = 1 / (1 + torch.exp(-positive))  →
    left = torch.exp(negative) / (1 + torch.exp(negative))  →
    positive, negative = wide.clamp(min=0), wide.clamp(max=0)  →
`where` with a branch that overflows
    both branches are computed and differentiated: 0 · inf in the one not taken is nan.
    positive, negative = wide.clamp(min=0), wide.clamp(max=0)  →  positive, negative = wide, wide
a gradient of 0 at exactly 0
    |x| has the gradient 0 at 0 in PyTorch, and the sigmoid one of 1/4.
    return torch.where(wide >= 0, right, left)  →  z = torch.exp(-wide.abs())
        return (torch.where(wide >= 0, 1.0, z) / (1 + z))
    right = 1 / (1 + torch.exp(-positive))  →
    left = torch.exp(negative) / (1 + torch.exp(negative))  →
    positive, negative = wide.clamp(min=0), wide.clamp(max=0)  →
1 - sigmoid
    the sigmoid rises from 0 to 1.
    return torch.where(wide >= 0, right, left)  →  return torch.where(wide >= 0, 1 - right, 1 - left)
tanh instead of sigmoid
    tanh runs from -1 to 1, and twice as fast.
    return torch.where(wide >= 0, right, left)  →  return torch.tanh(wide)
    right = 1 / (1 + torch.exp(-positive))  →
    left = torch.exp(negative) / (1 + torch.exp(negative))  →
    positive, negative = wide.clamp(min=0), wide.clamp(max=0)  →
the argument clamped at ±5
    a clamp holds the value and cuts the gradient: sigmoid(-1e4) is 0.
    wide.clamp(min=0), wide.clamp(max=0)  →  wide.clamp(0, 5), wide.clamp(-5, 0)
silu without its x
    silu multiplies the sigmoid by its own argument.
    return (wide * sigmoid(wide))  →  return (sigmoid(wide))
silu with the factor 1.702
    that is the quick approximation of gelu.
    return (wide * sigmoid(wide))  →  return (wide * sigmoid(1.702 * wide))
the gate detached from the graph
    the gradient of a product has two terms.
    return (wide * sigmoid(wide))  →  return (wide * sigmoid(wide).detach())
the tanh approximation of gelu
    GPT-2's approximation differs by up to 5e-4; the exact gelu goes by erf.
    torch.erf(wide / math.sqrt(2))  →  torch.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3))
gelu as x · sigmoid(1.702 x)
    the quick approximation is off by up to 0.02.
    share = 0.5 * (1 + torch.erf(wide / math.sqrt(2)))  →  share = sigmoid(1.702 * wide)
erf without the root of 2
    the distribution function of a standard normal is (1 + erf(x / √2)) / 2.
    torch.erf(wide / math.sqrt(2))  →  torch.erf(wide)
gelu without the factor 1/2
    1 + erf runs from 0 to 2; the share is half of it.
    share = 0.5 * (1 + torch.erf(wide / math.sqrt(2)))  →  share = 1 + torch.erf(wide / math.sqrt(2))
erf alone as the gate
    erf runs from -1 to 1; the share of a distribution from 0 to 1.
    share = 0.5 * (1 + torch.erf(wide / math.sqrt(2)))  →  share = torch.erf(wide / math.sqrt(2))
gelu in half precision
    1 + erf cancels below 0: with the three digits of half precision little is left of the share.
    return (wide * share).to(x.dtype)  →  return x * (0.5 * (1 + torch.erf(x / math.sqrt(2))))
the result left in float32
    the result has the dtype of the input.
    return (wide * share).to(x.dtype)  →  return wide * share
the input overwritten
    the input is not ours to change.
    return (wide * sigmoid(wide)).to(x.dtype)  →  result = (wide * sigmoid(wide)).to(x.dtype)
        x.detach().zero_()
        return result
"""
)

EQUIVALENT = (
    WIDER,
    Equivalent(r"wide = .*→.*(wide = x$|float16)", "sigmoid and SiLU lose a rounding or two; GELU's is rejected."),
    Equivalent(r"clamp\(min=0\).*→.*clamp\((min=-1|max=1)\)", "the other half of `where` is what is taken there."),
    Equivalent(r"wide >= 0.*→.*wide > 0", "both formulas give 1/2 at 0."),
)
