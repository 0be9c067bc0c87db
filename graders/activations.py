"""What `sigmoid`, `silu` and `gelu` must do. The oracles are torch's own in float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.bugs import Bug, Equivalent
from dojo.contract import Contract
from dojo.expect import Ban, Call, Draw
from dojo.rule import Formula

FORBIDDEN = Ban(
    r"sigmoid|silu|gelu|softplus|expit|\bglu\b",
    (
        "torch._refs.sigmoid",
        "torch._refs.special.expit",
        "torch._refs.nn.functional.gelu",
        "torch._refs.nn.functional.softplus",
        "torch._decomp.decompositions.silu",
        "torch.distributions.transforms.SigmoidTransform._call",
    ),
)
FAR = torch.tensor([-1e4, -300.0, -90.0, -30.0, 0.0, -0.0, 1.0, 30.0, 90.0, 300.0, 1e4])


def elementwise(function: Callable[[Tensor], Tensor]) -> Formula:
    """The function in float32 at least, rounded once."""

    def formula(init: dict, params: dict, x: Tensor) -> Tensor:
        return function(x.to(torch.promote_types(x.dtype, torch.float32))).to(x.dtype)

    return formula


def by_tanh(x: Tensor) -> Tensor:
    return 0.5 * (1 + torch.tanh(x / 2))


def by_exp(x: Tensor) -> Tensor:
    """The safe half of two formulas on each side."""
    return torch.where(x >= 0, 1 / (1 + torch.exp(-x.clamp(min=0))), 1 - 1 / (1 + torch.exp(x.clamp(max=0))))


def by_clamped_exp(x: Tensor) -> Tensor:
    """Far below zero a number that is none beside 1, instead of zero."""
    return 1 / (1 + torch.exp(-x.clamp(min=-40)))


def gelu_by_erf(x: Tensor) -> Tensor:
    return 0.5 * x * (1 + torch.erf(x * 0.5**0.5))


def gelu_by_half_products(x: Tensor) -> Tensor:
    return x / 2 + x / 2 * torch.erf(x / 2**0.5)


class ActivationContract(Contract):
    ban = FORBIDDEN
    rounded_once = True
    axes = {"x": "batch rows columns", "result": "batch rows columns"}
    cases = {
        "around_zero": lambda d: Call({"x": d.normal(3, 5, scale=2)}),
        "a_few_deviations_out": lambda d: Call({"x": d.normal(2, 3, 7, scale=8)}),
        "far_from_zero": lambda d: Call({"x": FAR.clone()}),
        "far_below_zero": lambda d: Call({"x": torch.tensor([-1e4, -1e3, -100.0, -1e4])}),
        "zero_alone": lambda d: Call({"x": torch.zeros(3)}),
    }
    more_shapes = {
        "one_number": lambda d: Call({"x": d.normal()}),
        "one_entry": lambda d: Call({"x": d.normal(1)}),
        "five_axes": lambda d: Call({"x": d.normal(2, 3, 1, 5, 4)}),
    }
    growth = {"rows": lambda d, n: Call({"x": d.normal(n, 5)}), "columns": lambda d, n: Call({"x": d.normal(2, n)})}
    time_limit = 12.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        return Call({"x": torch.tensor([300.0, -300.0, 6e4, -6e4, 12.0, -12.0]) + d.normal(6)})

    @staticmethod
    def linear_in(d: Draw, n: int) -> Call:
        return Call({"x": d.normal(7, n)})

    @staticmethod
    def timed(d: Draw) -> Call:
        return Call({"x": d.normal(512, 512, scale=3)})


class TestSigmoid(ActivationContract):
    name = "sigmoid"
    oracle = staticmethod(elementwise(torch.sigmoid))
    variants = tuple(elementwise(each) for each in (torch.sigmoid, by_tanh, by_exp, by_clamped_exp))


class TestSiLU(ActivationContract):
    name = "silu"
    oracle = staticmethod(elementwise(F.silu))
    variants = (
        elementwise(F.silu),
        elementwise(lambda x: x * by_tanh(x)),
        elementwise(lambda x: x * by_exp(x)),
        elementwise(lambda x: x * by_clamped_exp(x)),
    )


class TestGELU(ActivationContract):
    name = "gelu"
    oracle = staticmethod(elementwise(F.gelu))
    variants = tuple(elementwise(each) for each in (gelu_by_erf, F.gelu, gelu_by_half_products))


BUGS = [
    Bug(
        "a sigmoid whose gradient is nan for large negative input",
        "autograd multiplies the factors of 1 / (1 + exp(-x)) one after another, and inf · 0 is nan.",
        "return torch.where(wide >= 0, right, left).to(x.dtype)",
        "return (1 / (1 + torch.exp(-wide))).to(x.dtype)",
    ),
    Bug(
        "`where` with a branch that overflows",
        "both branches are computed and differentiated: 0 · inf in the one not taken is nan.",
        "positive, negative = wide.clamp(min=0), wide.clamp(max=0)",
        "positive, negative = wide, wide",
    ),
    Bug(
        "a slope of 0 at exactly 0",
        "|x| has the slope 0 at 0 in PyTorch, and the sigmoid a slope of 1/4.",
        "return torch.where(wide >= 0, right, left).to(x.dtype)",
        "z = torch.exp(-wide.abs()); return (torch.where(wide >= 0, 1.0, z) / (1 + z)).to(x.dtype)",
    ),
    Bug(
        "the sigmoid mirrored",
        "the sigmoid rises from 0 to 1.",
        "return torch.where(wide >= 0, right, left).to(x.dtype)",
        "return (1 - torch.where(wide >= 0, right, left)).to(x.dtype)",
    ),
    Bug(
        "tanh called sigmoid",
        "tanh runs from -1 to 1, and twice as fast.",
        "return torch.where(wide >= 0, right, left).to(x.dtype)",
        "return torch.tanh(wide).to(x.dtype)",
    ),
    Bug(
        "the argument clamped at ±5",
        "a clamp holds the value and cuts the gradient: sigmoid(-1e4) is 0.",
        "positive, negative = wide.clamp(min=0), wide.clamp(max=0)",
        "wide = wide.clamp(-5, 5); positive, negative = wide.clamp(min=0), wide.clamp(max=0)",
    ),
    Bug(
        "silu without its x",
        "silu multiplies the sigmoid by its own argument.",
        "return (wide * sigmoid(wide)).to(x.dtype)",
        "return sigmoid(wide).to(x.dtype)",
    ),
    Bug(
        "silu with the factor 1.702",
        "that is the quick approximation of gelu.",
        "return (wide * sigmoid(wide)).to(x.dtype)",
        "return (wide * sigmoid(1.702 * wide)).to(x.dtype)",
    ),
    Bug(
        "the gate detached from the graph",
        "the gradient of a product has two terms.",
        "return (wide * sigmoid(wide)).to(x.dtype)",
        "return (wide * sigmoid(wide).detach()).to(x.dtype)",
    ),
    Bug(
        "the tanh approximation of gelu",
        "GPT-2's approximation differs by up to 5e-4; the exact gelu goes by erf.",
        "share = 0.5 * (1 + torch.erf(wide / math.sqrt(2)))",
        "share = 0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))",
    ),
    Bug(
        "gelu as x · sigmoid(1.702 x)",
        "the quick approximation is off by up to 0.02.",
        "share = 0.5 * (1 + torch.erf(wide / math.sqrt(2)))",
        "share = sigmoid(1.702 * wide)",
    ),
    Bug(
        "erf without the root of 2",
        "the distribution function of a standard normal is (1 + erf(x / √2)) / 2.",
        "share = 0.5 * (1 + torch.erf(wide / math.sqrt(2)))",
        "share = 0.5 * (1 + torch.erf(wide))",
    ),
    Bug(
        "gelu without its half",
        "1 + erf runs from 0 to 2; the share is half of it.",
        "share = 0.5 * (1 + torch.erf(wide / math.sqrt(2)))",
        "share = 1 + torch.erf(wide / math.sqrt(2))",
    ),
    Bug(
        "erf alone as the gate",
        "erf runs from -1 to 1; the share of a distribution from 0 to 1.",
        "share = 0.5 * (1 + torch.erf(wide / math.sqrt(2)))",
        "share = torch.erf(wide / math.sqrt(2))",
    ),
    Bug(
        "the result left in float32",
        "the result has the dtype of the input.",
        "return (wide * share).to(x.dtype)",
        "return wide * share",
    ),
    Bug(
        "the input overwritten",
        "the input is not ours to change.",
        "return (wide * sigmoid(wide)).to(x.dtype)",
        "out = (wide * sigmoid(wide)).to(x.dtype); x.detach().zero_(); return out",
    ),
]

EQUIVALENT = (
    Equivalent(r"wide = .*float32.*→.*float64", "float64 is wider than the float32 that is asked for."),
    Equivalent(
        r"wide = .*→.*(wide = x$|float16)",
        "sigmoid and SiLU lose a rounding or two in half precision, a small multiple of one; GELU's is rejected.",
    ),
    Equivalent(r"clamp\(min=0\).*→.*clamp\((min=-1|max=1)\)", "the other half of `where` is what is taken there."),
    Equivalent(r"wide >= 0.*→.*wide > 0", "both formulas give 1/2 at 0."),
)
