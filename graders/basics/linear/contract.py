"""What `Linear` must do. The oracle is torch's own linear layer in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Ban, ModuleContract, drawn_from_normal, robust


def library(params: dict, x: Tensor) -> Tensor:
    return F.linear(x, params["weight"])


def term_by_term(params: dict, x: Tensor) -> Tensor:
    """Products by broadcasting, each sum in float32."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x.to(wide)[..., None, :] * params["weight"].to(wide)).sum(-1).to(x.dtype)


def one_after_another(params: dict, x: Tensor) -> Tensor:
    """The least accurate sum there is: term after term."""
    wide = torch.promote_types(x.dtype, torch.float32)
    products = x.to(wide)[..., None, :] * params["weight"].to(wide)
    return sum(products.unbind(-1)).to(x.dtype)


class TestLinear(ModuleContract):
    name = "Linear"
    oracle = library
    variants = (library, term_by_term, one_after_another)
    ban = Ban(r"linear", ("torch.nn.functional.linear", "torch.nn.functional.bilinear"))
    sizes = {"in_features": 5, "out_features": 3}
    cases = {
        "one_vector_in_a_batch": {"shape": (1,)},
        "a_batch": {"shape": (2, 7)},
        "square": {"in_features": 4, "out_features": 4},
        "wider": {"in_features": 4, "out_features": 11},
    }
    near_300 = {"shape": (3,), "offset": 300.0, "weight": 0.2}
    holds = {"Initialization": ("test_weight_is_drawn",)}
    memory_in = "shape"
    time_limit = 10.0

    @robust
    def test_weight_is_drawn_from_a_truncated_normal(self, attempt: Attempt) -> None:
        """Signals grow or die from layer to layer before the first step, or a few weights start out far too large."""
        sentence = "weight is normal with variance 2 / (in_features + out_features), truncated at three deviations"
        std = (2 / 600) ** 0.5
        drawn_from_normal(attempt.Linear, (400, 200), std, 3 * std, sentence)
