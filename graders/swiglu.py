"""What `hidden_size` and `SwiGLU` must do. The oracle spells silu out, x / (1 + e^-x), in float64."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.bugs import Bug, Equivalent
from dojo.contract import ModuleContract, core, half_precisions, robust
from dojo.expect import Call, Draw, fail, match, tensor
from dojo.judge.proxy import Attempt
from dojo.verdict import Label, Section


def by_definition(init: dict, params: dict, x: Tensor) -> Tensor:
    gate = x @ params["w1.weight"].mT
    return (gate / (1 + torch.exp(-gate)) * (x @ params["w3.weight"].mT)) @ params["w2.weight"].mT


def library(init: dict, params: dict, x: Tensor) -> Tensor:
    hidden = F.silu(F.linear(x, params["w1.weight"])) * F.linear(x, params["w3.weight"])
    return F.linear(hidden, params["w2.weight"])


def by_sigmoid(init: dict, params: dict, x: Tensor) -> Tensor:
    gate = F.linear(x, params["w1.weight"])
    return F.linear(torch.sigmoid(gate) * gate * F.linear(x, params["w3.weight"]), params["w2.weight"])


def in_one_product(init: dict, params: dict, x: Tensor) -> Tensor:
    both = x @ torch.cat([params["w1.weight"], params["w3.weight"]]).mT
    gate, value = both.chunk(2, -1)
    wide = torch.promote_types(x.dtype, torch.float32)
    return ((F.silu(gate.to(wide)) * value.to(wide)) @ params["w2.weight"].to(wide).mT).to(x.dtype)


def call(d: Draw, *shape: int, d_model: int = 6, d_ff: int | None = 11, sharp: float = 3.0) -> Call:
    """A call whose gates have a standard deviation of `sharp`."""
    width = d_ff if d_ff is not None else hidden(d_model, 64)
    params = {
        "w1.weight": d.normal(width, d_model, scale=sharp * d_model**-0.5),
        "w3.weight": d.normal(width, d_model, scale=d_model**-0.5),
        "w2.weight": d.normal(d_model, width, scale=width**-0.5),
    }
    return Call({"x": d.normal(*shape, d_model)}, {"d_model": d_model, "d_ff": d_ff}, params)


def hidden(d_model: int, multiple_of: int) -> int:
    whole = ceil(Fraction(8, 3) * d_model)
    return next(size for size in range(whole, whole + multiple_of) if size % multiple_of == 0)


class TestHiddenSize:
    @core
    def test_is_eight_thirds_rounded_up_twice(self, attempt: Attempt) -> None:
        for d_model, multiple_of in (
            (512, 64),
            (24, 64),
            (24, 1),
            (25, 1),
            (26, 1),
            (96, 256),
            (97, 256),
            (4096, 256),
            (1, 1),
            (3, 8),
            (7, 5),
        ):
            self.verify(attempt, d_model, multiple_of, attempt.hidden_size(d_model, multiple_of))
            self.verify(attempt, d_model, multiple_of, attempt.hidden_size(d_model, multiple_of=multiple_of))

    @core
    def test_rounds_up_to_a_multiple_of_64_by_default(self, attempt: Attempt, draw: Draw) -> None:
        for d_model in (24, 25, 512, 768, *draw.integers(1, 20_000, 20).tolist()):
            self.verify(attempt, d_model, 64, attempt.hidden_size(d_model))

    def verify(self, attempt: Attempt, d_model: int, multiple_of: int, got: object) -> None:
        """One value, which is a whole number."""
        expected = hidden(d_model, multiple_of)
        if type(got) is not int or got != expected:
            exact = f"8/3 · {d_model} = {float(Fraction(8, 3) * d_model):.2f}"
            told = f"hidden_size({d_model}, multiple_of={multiple_of}): got {got!r}, expected {expected} ({exact})"
            fail("hidden_size is 8/3 of d_model, rounded up to an integer and then up to a multiple", told)


class TestSwiGLU(ModuleContract):
    name = "SwiGLU"
    oracle = by_definition
    variants = (library, by_sigmoid, in_one_product)
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    cases = {
        "one_token": lambda d: call(d, 1),
        "a_batch": lambda d: call(d, 2, 5),
        "default_width": lambda d: call(d, 3, d_ff=None),
        "narrow": lambda d: call(d, 2, 3, d_model=7, d_ff=2),
        "as_wide_inside_as_outside": lambda d: call(d, 2, 5, d_ff=6),
        "gates_far_from_zero": lambda d: call(d, 2, 5, sharp=100.0),
    }
    more_shapes = {
        "no_leading_dimensions": lambda d: call(d),
        "three_leading_dimensions": lambda d: call(d, 2, 3, 5),
        "default_width_of_a_wider_model": lambda d: call(d, 2, d_model=30, d_ff=None),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5),
        "seq": lambda d, n: call(d, 2, n),
        "width": lambda d, n: call(d, 2, 3, d_model=n),
        "hidden width": lambda d, n: call(d, 2, 3, d_ff=n),
    }
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        quiet = call(d, 3, sharp=0.02)
        small = quiet.params | {"w3.weight": quiet.params["w3.weight"] * 0.02}
        return Call({"x": 300 + d.normal(3, 6)}, quiet.init, small)

    @robust
    @half_precisions
    def test_half_precision_silu_is_rounded_once(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        gates = torch.tensor([-11.5, -8.0, -5.0, -1.0, 0.5, 3.0])
        shown = {"w1.weight": torch.tensor([[1.0, 0.0]]), "w3.weight": torch.tensor([[0.0, 1.0]])}
        shown["w2.weight"] = torch.tensor([[1.0], [0.0]])
        x = torch.stack([gates, torch.ones_like(gates)], -1)
        made = Call({"x": x}, {"d_model": 2, "d_ff": 1}, shown).cast(dtype)
        with torch.no_grad(), self.told(attempt, "a gate alone", made):
            result = self.ready(attempt, made, dtype)(*self.on_device(attempt, made).inputs.values())
            got = tensor(result, attempt.device).cpu()
        expected = torch.stack([F.silu(gates.double()), torch.zeros(len(gates), dtype=torch.float64)], -1)
        allowed = 2 * torch.finfo(dtype).eps * expected.abs()
        about = Section(Label.INPUT, f"silu alone reaches the result, {dtype}, gates {gates.tolist()}")
        match(got, expected, allowed, "silu is computed in float32 and rounded once", "gate feature", about)

    @staticmethod
    def linear_in(d: Draw, n: int) -> Call:
        return call(d, 1, n)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 256, d_model=128, d_ff=344)


BUGS = [
    Bug(
        "the gate on the wrong branch",
        "silu acts on w1 x, and w3 x is what it gates.",
        "return self.w2(F.silu(self.w1(x)) * self.w3(x))",
        "return self.w2(self.w1(x) * F.silu(self.w3(x)))",
    ),
    Bug(
        "gelu instead of silu",
        "that is GEGLU; the Swi in SwiGLU is silu, x · sigmoid(x).",
        "return self.w2(F.silu(self.w1(x)) * self.w3(x))",
        "return self.w2(F.gelu(self.w1(x)) * self.w3(x))",
    ),
    Bug(
        "sigmoid instead of silu",
        "that is the plain GLU; silu multiplies the sigmoid by its own argument.",
        "return self.w2(F.silu(self.w1(x)) * self.w3(x))",
        "return self.w2(F.sigmoid(self.w1(x)) * self.w3(x))",
    ),
    Bug(
        "relu instead of silu",
        "that is ReGLU; silu is smooth and slightly negative below 0.",
        "return self.w2(F.silu(self.w1(x)) * self.w3(x))",
        "return self.w2(F.relu(self.w1(x)) * self.w3(x))",
    ),
    Bug(
        "silu on both branches",
        "only the gate passes through silu.",
        "return self.w2(F.silu(self.w1(x)) * self.w3(x))",
        "return self.w2(F.silu(self.w1(x)) * F.silu(self.w3(x)))",
    ),
    Bug(
        "branches added instead of multiplied",
        "a gate multiplies: that is what lets it close.",
        "return self.w2(F.silu(self.w1(x)) * self.w3(x))",
        "return self.w2(F.silu(self.w1(x)) + self.w3(x))",
    ),
    Bug(
        "no gate",
        "w3 takes no part, so this is an ordinary feed-forward layer.",
        "return self.w2(F.silu(self.w1(x)) * self.w3(x))",
        "return self.w2(F.silu(self.w1(x)) + 0 * self.w3(x))",
    ),
    Bug(
        "silu after the product",
        "the gate is closed before it multiplies, not after.",
        "return self.w2(F.silu(self.w1(x)) * self.w3(x))",
        "return self.w2(F.silu(self.w1(x) * self.w3(x)))",
    ),
    Bug(
        "d_ff=None passed on",
        "a width that is left out is hidden_size(d_model).",
        "if d_ff is None:",
        "if d_ff == 0:",
    ),
    Bug(
        "a width of 4 · d_model by default",
        "three matrices of 8/3 cost what two of 4 do.",
        "d_ff = hidden_size(d_model)",
        "d_ff = 4 * d_model",
    ),
    Bug(
        "rounded down to an integer",
        "8/3 of d_model is rounded up before it is rounded up to a multiple.",
        "width = (8 * d_model + 2) // 3",
        "width = 8 * d_model // 3",
    ),
    Bug(
        "rounded down to a multiple",
        "a width that is no multiple goes up to the next one.",
        "multiples = (width + multiple_of - 1) // multiple_of",
        "multiples = max(1, width // multiple_of)",
    ),
    Bug(
        "always one multiple more",
        "a width that is a multiple already stays as it is.",
        "multiples = (width + multiple_of - 1) // multiple_of",
        "multiples = width // multiple_of + 1",
    ),
    Bug(
        "projections with a bias",
        "projections carry no bias here: state dicts must be exchangeable.",
        "self.w3 = nn.Linear(d_model, d_ff, bias=False, device=device, dtype=dtype)",
        "self.w3 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)",
    ),
]

EQUIVALENT = (
    Equivalent(r"d_model < 1 or multiple_of < 1.*→", "sizes below 1 are not graded: the contract names no error."),
    Equivalent(r"need positive integers.*→", "sizes below 1 are not graded: the contract names no error."),
)
