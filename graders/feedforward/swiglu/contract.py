"""What `hidden_size` and `SwiGLU` must do. The oracles take exact fractions, and silu by its sigmoid in float64."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import GeneratorContract, ModuleContract
from dojo.contracts.oracles import library_swiglu, swiglu


def in_one_product(params: dict, x: Tensor) -> Tensor:
    both = x @ torch.cat([params["w1.weight"], params["w3.weight"]]).mT
    gate, value = both.to(torch.promote_types(x.dtype, torch.float32)).chunk(2, -1)
    return ((F.silu(gate) * value) @ params["w2.weight"].to(gate).mT).to(x.dtype)


def hidden(d_model: int, multiple_of: int = 64) -> int:
    whole = ceil(Fraction(8, 3) * d_model)
    return next(size for size in range(whole, whole + multiple_of) if size % multiple_of == 0)


class TestHiddenSize(GeneratorContract):
    name = "hidden_size"
    oracle = hidden
    holds = {"Width": ("test_the_width", "test_it_is_rounded", "test_the_multiple")}
    claims = {
        "the width is eight thirds": [(24, 8), (25, 8), (26, 8), (1, 8), (3000, 8)],
        "it is rounded up to a multiple": [(512, 64), (24, 64), (96, 256), (97, 256), (4096, 256), (7, 40)],
        "the multiple is 64 by default": lambda d: zip((24, 25, 512, 768, *d.integers(1, 20_000, 20).tolist())),
    }


class TestSwiGLU(ModuleContract):
    name = "SwiGLU"
    oracle = swiglu
    variants = (library_swiglu, swiglu, in_one_product)
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    sizes = {"d_model": 6, "d_ff": 11}
    scales = {"w1": 3.0}
    cases = {
        "one_token": {"shape": (1,)},
        "a_batch": {},
        "default_width": {"shape": (3,), "d_ff": None},
        "narrow": {"d_model": 7, "d_ff": 2},
        "as_wide_inside_as_outside": {"d_ff": 6},
    }
    hard_cases = {"gates_far_from_zero": {"w1": 100.0}}
    holds = {
        "Gate": ("test_values_match", "test_hard_cases"),
        "Given width": ("test_holds_exactly",),
    }
    more_shapes = {
        "no_leading_dimensions": {"shape": ()},
        "three_leading_dimensions": {"shape": (2, 3, 5)},
        "default_width_of_a_wider_model": {"shape": (2,), "d_model": 30, "d_ff": None},
    }
    near_300 = {"offset": 300.0, "w1": 0.02}
    memory_in = "shape"
    timed = {"shape": (256,), "d_model": 128, "d_ff": 344}
    time_limit = 10.0
