"""What `Linear` must do. The oracle is torch's own linear layer in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Draw, ModuleContract, drawn_from_normal, robust


def library(init: dict, params: dict, x: Tensor) -> Tensor:
    return F.linear(x, params["weight"])


def term_by_term(init: dict, params: dict, x: Tensor) -> Tensor:
    """Products by broadcasting, each sum in float32."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x.to(wide)[..., None, :] * params["weight"].to(wide)).sum(-1).to(x.dtype)


def one_after_another(init: dict, params: dict, x: Tensor) -> Tensor:
    """The least accurate sum there is: term after term."""
    wide = torch.promote_types(x.dtype, torch.float32)
    products = x.to(wide)[..., None, :] * params["weight"].to(wide)
    return sum(products.unbind(-1)).to(x.dtype)


class TestLinear(ModuleContract):
    name = "Linear"
    oracle = library
    variants = (library, term_by_term, one_after_another)
    ban = Ban(r"linear", ("torch.nn.functional.linear", "torch.nn.functional.bilinear"))
    cases = {
        "one_vector_in_a_batch": {"shape": (1,)},
        "a_batch": {"shape": (2, 7)},
        "square": {"shape": (2,), "n_in": 4, "n_out": 4},
        "wider": {"n_in": 4, "n_out": 11},
    }
    more_shapes = {
        "no_leading_dimensions": {"shape": ()},
        "three_leading_dimensions": {"shape": (2, 3, 4)},
        "one_output": {"n_out": 1},
        "one_input": {"n_in": 1},
    }
    near_300 = {"shape": (3,), "offset": 300.0, "scale": 0.1}
    grows = {"batch": "batch", "the width of the input": "n_in", "the width of the result": "n_out"}
    memory_in = "batch"
    timed = {"shape": (1024,), "n_in": 256, "n_out": 192}
    time_limit = 10.0

    @classmethod
    def call(
        cls, d: Draw, shape: tuple = (2, 3), batch: int = 0, n_in: int = 5, n_out: int = 3, offset: float = 0.0,
        scale: float = 1.0,
    ) -> Call:  # fmt: skip
        shape = (batch, 5) if batch else shape
        init = {"in_features": n_in, "out_features": n_out}
        return Call({"x": offset + d.normal(*shape, n_in)}, init, cls.params(d, init, weight=scale * n_in**0.5))

    @robust
    def test_weight_is_drawn_from_a_truncated_normal(self, attempt: Attempt) -> None:
        """Signals grow or die from layer to layer before the first step, or a few weights start out far too large."""
        sentence = "weight is normal with variance 2 / (in_features + out_features), truncated at three deviations"
        std = (2 / 600) ** 0.5
        drawn_from_normal(attempt.Linear, (400, 200), std, 3 * std, sentence)
