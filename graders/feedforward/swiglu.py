"""What `hidden_size` and `SwiGLU` must do. The oracles take exact fractions, and silu by its sigmoid in float64."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    Call,
    Draw,
    Equivalent,
    GeneratorContract,
    KnownBugs,
    ModuleContract,
)
from dojo.contracts.oracles import library_swiglu, swiglu


def by_sigmoid(init: dict, params: dict, x: Tensor) -> Tensor:
    return swiglu(params, x)


def library(init: dict, params: dict, x: Tensor) -> Tensor:
    return library_swiglu(params, x)


def in_one_product(init: dict, params: dict, x: Tensor) -> Tensor:
    both = x @ torch.cat([params["w1.weight"], params["w3.weight"]]).mT
    gate, value = both.to(torch.promote_types(x.dtype, torch.float32)).chunk(2, -1)
    return ((F.silu(gate) * value) @ params["w2.weight"].to(gate).mT).to(x.dtype)


def hidden(d_model: int, multiple_of: int = 64) -> int:
    whole = ceil(Fraction(8, 3) * d_model)
    return next(size for size in range(whole, whole + multiple_of) if size % multiple_of == 0)


class TestHiddenSize(GeneratorContract):
    name = "hidden_size"
    oracle = hidden
    claims = {
        "the width is eight thirds": [(24, 8), (25, 8), (26, 8), (1, 8), (3000, 8)],
        "it is rounded up to a multiple": [(512, 64), (24, 64), (96, 256), (97, 256), (4096, 256), (7, 40)],
        "the multiple is 64 by default": lambda d: zip((24, 25, 512, 768, *d.integers(1, 20_000, 20).tolist())),
    }


class TestSwiGLU(ModuleContract):
    name = "SwiGLU"
    oracle = by_sigmoid
    variants = (library, by_sigmoid, in_one_product)
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    cases = {
        "one_token": {"shape": (1,)},
        "a_batch": {"batch": 2},
        "default_width": {"shape": (3,), "d_ff": None},
        "narrow": {"d_model": 7, "d_ff": 2},
        "as_wide_inside_as_outside": {"d_ff": 6},
    }
    hard_cases = {"gates_far_from_zero": {"logit_scale": 100.0}}
    more_shapes = {
        "no_leading_dimensions": {"shape": ()},
        "three_leading_dimensions": {"shape": (2, 3, 5)},
        "default_width_of_a_wider_model": {"shape": (2,), "d_model": 30, "d_ff": None},
    }
    near_300 = {"offset": 300.0, "logit_scale": 0.02}
    grows = {"batch": "batch", "seq": "seq", "width": "d_model", "hidden width": "d_ff"}
    memory_in = "seq"
    timed = {"shape": (256,), "d_model": 128, "d_ff": 344}
    time_limit = 10.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, d_model: int = 6, d_ff: int | None = 11, logit_scale: float = 3.0,
        offset: float = 0.0, shape: tuple | None = None,
    ) -> Call:  # fmt: skip
        shape = (batch, seq) if shape is None else shape
        init = {"d_model": d_model, "d_ff": d_ff}
        return Call({"x": offset + d.normal(*shape, d_model)}, init, cls.params(d, init, w1=logit_scale))


CLAIMS = {  # words of the statement, and the checks that hold them
    "hidden_size": "hidden_size",
    "d_ff": "values|hidden_size",
}

BUGS = KnownBugs(
    """
the gate on the wrong branch
    silu acts on w1 x, and w3 x is what it gates.
    return self.w2(F.silu(self.w1(x)) * self.w3(x))  →  return self.w2(self.w1(x) * F.silu(self.w3(x)))
gelu instead of silu
    that is GEGLU; the Swi in SwiGLU is silu, x · sigmoid(x).
    return self.w2(F.silu(  →  return self.w2(F.gelu(
sigmoid instead of silu
    that is the plain GLU; silu multiplies the sigmoid by its own argument.
    return self.w2(F.silu(  →  return self.w2(F.sigmoid(
relu instead of silu
    that is ReGLU; silu is smooth and slightly negative below 0.
    return self.w2(F.silu(  →  return self.w2(F.relu(
silu whose gradient is nan far below zero
    autograd multiplies the factors of x / (1 + exp(-x)) one after another, and inf · 0 is nan below -88.
    return self.w2(F.silu(self.w1(x)) * self.w3(x))
    →  wide = self.w1(x).to(torch.promote_types(x.dtype, torch.float32))
        return self.w2((wide / (1 + torch.exp(-wide))).to(x.dtype) * self.w3(x))
silu on both branches
    only the gate passes through silu.
    return self.w2(F.silu(self.w1(x)) * self.w3(x))  →  return self.w2(F.silu(self.w1(x)) * F.silu(self.w3(x)))
branches added instead of multiplied
    a gate multiplies: that is what lets it close.
    return self.w2(F.silu(self.w1(x)) * self.w3(x))  →  return self.w2(F.silu(self.w1(x)) + self.w3(x))
no gate
    w3 takes no part, so this is an ordinary feed-forward layer.
    return self.w2(F.silu(self.w1(x)) * self.w3(x))  →  return self.w2(F.silu(self.w1(x)) + 0 * self.w3(x))
silu after the product
    the gate is closed before it multiplies, not after.
    return self.w2(F.silu(self.w1(x)) * self.w3(x))  →  return self.w2(F.silu(self.w1(x) * self.w3(x)))
d_ff=None passed on  [raises]
    a width that is left out is hidden_size(d_model).
    if d_ff is None:  →  if d_ff == 0:
a given width rounded to a multiple
    a width that is given is taken as it is.
    self.w1 = nn.Linear(  →  d_ff = -(-d_ff // 64) * 64
        self.w1 = nn.Linear(
a width of 4 · d_model by default
    three matrices of 8/3 cost what two of 4 do.
    d_ff = hidden_size(d_model)  →  d_ff = 4 * d_model
rounded down to a multiple
    a width that is no multiple goes up to the next one.
    multiples = (width + multiple_of - 1) // multiple_of  →  multiples = max(1, width // multiple_of)
always one multiple more
    a width that is a multiple already stays as it is.
    multiples = (width + multiple_of - 1) // multiple_of  →  multiples = width // multiple_of + 1
projections with a bias
    projections carry no bias here: state dicts must be exchangeable.
    self.w3 = nn.Linear(d_model, d_ff, bias=False,  →  self.w3 = nn.Linear(d_model, d_ff,
""",
    builds_on=("linear",),
)

EQUIVALENT = (
    Equivalent(r"(< 1 or multiple_of <|need positive).*→", "sizes below 1 are not graded."),
    Equivalent(
        r"(width = \(8|multiples = ).*→.*([-+] 2\)|\+ 1\)|d_model) // ",
        "8/3 of a width is never just above a multiple of 8: rounded down or up before, it comes to the same multiple.",
    ),
)
