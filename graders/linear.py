"""What `Linear` must do. The oracle is torch's own linear layer in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.bugs import Bug
from dojo.contract import ModuleContract, core, robust
from dojo.expect import Ban, Call, Draw, drawn_from_normal, parameters_are
from dojo.judge.proxy import Attempt


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


def call(d: Draw, *shape: int, n_in: int = 5, n_out: int = 3) -> Call:
    init = {"in_features": n_in, "out_features": n_out}
    return Call({"x": d.normal(*shape, n_in)}, init, {"weight": d.normal(n_out, n_in)})


class TestLinear(ModuleContract):
    name = "Linear"
    oracle = library
    variants = (library, term_by_term, one_after_another)
    ban = Ban(r"linear", ("torch.nn.functional.linear", "torch.nn.functional.bilinear"))
    axes = {"x": "batch seq in", "result": "batch seq out"}
    cases = {
        "one_vector_in_a_batch": lambda d: call(d, 1),
        "a_batch": lambda d: call(d, 2, 7),
        "square": lambda d: call(d, 2, n_in=4, n_out=4),
        "wider": lambda d: call(d, 2, 3, n_in=4, n_out=11),
    }
    more_shapes = {
        "no_leading_dimensions": lambda d: call(d),
        "three_leading_dimensions": lambda d: call(d, 2, 3, 4),
        "one_output": lambda d: call(d, 2, n_out=1),
        "one_input": lambda d: call(d, 2, n_in=1),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5),
        "seq": lambda d, n: call(d, 2, n),
        "the width of the input": lambda d, n: call(d, 2, 3, n_in=n),
        "the width of the result": lambda d, n: call(d, 2, 3, n_out=n),
    }
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        made = call(d, 3)
        return Call({"x": 300 + d.normal(3, 5)}, made.init, {"weight": made.params["weight"] * 0.1})

    @staticmethod
    def linear_in(d: Draw, n: int) -> Call:
        return call(d, 1, n)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 1024, n_in=256, n_out=192)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt) -> None:
        with torch.no_grad():
            parameters_are(attempt.Linear(5, 3), {"weight": (3, 5)})

    @robust
    def test_weight_is_drawn_from_a_truncated_normal(self, attempt: Attempt) -> None:
        sentence = "weight is normal with variance 2 / (in_features + out_features), truncated at three deviations"
        std = (2 / 600) ** 0.5
        drawn_from_normal(attempt.Linear, (400, 200), std, 3 * std, sentence)


BUGS = [
    Bug(
        "stored as (in_features, out_features)",
        "weights are stored (out, in): one row makes one output.",
        "self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))",
        "self.weight = nn.Parameter(torch.empty(in_features, out_features, device=device, dtype=dtype))",
    ),
    Bug(
        "a weight that is not a parameter",
        "a plain tensor is neither trained nor saved nor moved.",
        "self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))",
        "self.weight = torch.empty(out_features, in_features, device=device, dtype=dtype)",
    ),
    Bug(
        "a bias",
        "the layer has no bias: state dicts must be exchangeable.",
        "self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))",
        "self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype)); self.bias = nn.Parameter(torch.zeros(out_features, device=device, dtype=dtype))",  # noqa: E501
    ),
    Bug(
        "an explicit dtype ignored",
        "the parameter is made in the dtype that the constructor is given.",
        "self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))",
        "self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device))",
    ),
    Bug(
        "super().__init__ without the call",
        "a module must be set up before it can hold parameters.",
        "super().__init__()",
        "super().__init__",
    ),
    Bug(
        "the variance given as the standard deviation",
        "the standard deviation is the root of the variance.",
        "std = math.sqrt(2 / (in_features + out_features))",
        "std = 2 / (in_features + out_features)",
    ),
    Bug(
        "the variance 1 / in_features",
        "that keeps the size of activations, but not of gradients; the contract asks for the mean of both widths.",
        "std = math.sqrt(2 / (in_features + out_features))",
        "std = math.sqrt(1 / in_features)",
    ),
    Bug(
        "truncated at ±3 instead of ±3σ",
        "the bounds of trunc_normal_ are numbers, not multiples of the deviation.",
        "nn.init.trunc_normal_(self.weight, std=std, a=-3 * std, b=3 * std)",
        "nn.init.trunc_normal_(self.weight, std=std, a=-3, b=3)",
    ),
    Bug(
        "truncated at ±2σ",
        "the tails are cut at three deviations.",
        "nn.init.trunc_normal_(self.weight, std=std, a=-3 * std, b=3 * std)",
        "nn.init.trunc_normal_(self.weight, std=std, a=-2 * std, b=2 * std)",
    ),
    Bug(
        "uniform instead of normal",
        "Glorot's other initialisation has the same variance and another shape.",
        "nn.init.trunc_normal_(self.weight, std=std, a=-3 * std, b=3 * std)",
        "nn.init.xavier_uniform_(self.weight)",
    ),
    Bug(
        "zeros",
        "with equal weights all outputs learn the same.",
        "nn.init.trunc_normal_(self.weight, std=std, a=-3 * std, b=3 * std)",
        "nn.init.zeros_(self.weight)",
    ),
    Bug(
        "the result scaled by its standard deviation",
        "the deviation belongs to the initialisation, not to the map.",
        "return x @ self.weight.T",
        "return x @ self.weight.T / math.sqrt(self.weight.shape[-1])",
    ),
    Bug(
        "the weight detached from the graph",
        "a layer that passes no gradient to its weight never learns.",
        "return x @ self.weight.T",
        "return x @ self.weight.data.T",
    ),
    Bug(
        "the result always in float32",
        "the result has the dtype of the parameter.",
        "return x @ self.weight.T",
        "return x.float() @ self.weight.T.float()",
    ),
]
