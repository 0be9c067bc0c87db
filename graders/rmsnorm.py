"""What `RMSNorm` must do. The oracle is torch's own in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.bugs import WIDER, Bug
from dojo.contract import core
from dojo.expect import Ban, Call, Draw, fail, parameters_are
from dojo.formulas import library_rms_norm, rms_norm
from dojo.judge.proxy import Attempt
from dojo.norming import NormContract


def library(init: dict, params: dict, x: Tensor) -> Tensor:
    return library_rms_norm(x, params["weight"], init.get("eps", 1e-5))


def rounded_before_the_weight(init: dict, params: dict, x: Tensor) -> Tensor:
    return rms_norm(x, params["weight"], init.get("eps", 1e-5))


def by_length(init: dict, params: dict, x: Tensor) -> Tensor:
    """√n · x / ‖(x, √(n eps))‖."""
    wide, size = x.to(torch.promote_types(x.dtype, torch.float32)), x.shape[-1]
    extra = wide.new_full((*x.shape[:-1], 1), (size * init.get("eps", 1e-5)) ** 0.5)
    length = torch.linalg.vector_norm(torch.cat([wide, extra], -1), dim=-1, keepdim=True)
    return (wide * (size**0.5 / length) * params["weight"]).to(x.dtype)


def call(d: Draw, *shape: int, size: int = 7, loud: float = 1.0, **init: float) -> Call:
    """A call on inputs of standard deviation `loud`."""
    weight = d.uniform(size, low=-2, high=2)
    return Call({"x": d.normal(*shape, size, scale=loud)}, {"d_model": size, **init}, {"weight": weight})


def with_zeros(d: Draw) -> Call:
    made = call(d, 3)
    return made.with_inputs(x=made.inputs["x"] * torch.tensor([[1.0], [0.0], [1.0]]))


class TestRMSNorm(NormContract):
    name = "RMSNorm"
    oracle = library
    variants = (rounded_before_the_weight, library, by_length)
    ban = Ban(r"rms_norm|layer_norm", ("torch._refs.native_layer_norm", "torch._refs.nn.functional.layer_norm"))
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    cases = {
        "one_vector_in_a_batch": lambda d: call(d, 1),
        "a_batch": lambda d: call(d, 2, 5),
        "as_many_tokens_as_entries": lambda d: call(d, 7, 7),
        "inputs_as_small_as_eps": lambda d: call(d, 2, 5, loud=0.003),
        "another_eps": lambda d: call(d, 2, 5, eps=0.5),
        "a_tiny_eps": lambda d: call(d, 2, 5, loud=1e-5, eps=1e-12),
        "no_eps": lambda d: call(d, 2, 5, loud=1e-3, eps=0.0),
        "a_vector_of_zeros": with_zeros,
        "large_inputs": lambda d: call(d, 2, 5, loud=1e4),
    }
    telling = ("a_batch", "inputs_as_small_as_eps", "a_vector_of_zeros")
    more_shapes = {
        "no_leading_dimensions": lambda d: call(d),
        "three_leading_dimensions": lambda d: call(d, 2, 3, 4),
        "one_entry": lambda d: call(d, 3, size=1, eps=0.5),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5),
        "seq": lambda d, n: call(d, 2, n),
        "width": lambda d, n: call(d, 2, 3, size=n),
    }
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        return call(d, 3).with_inputs(x=300 + d.normal(3, 7))

    @staticmethod
    def linear_in(d: Draw, n: int) -> Call:
        return call(d, 1, n)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 1024, size=512)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 5, eps=0.5)
        module = attempt.RMSNorm(*made.init.values())
        parameters_are(module, {"weight": (7,)})
        module.to(attempt.device).load_state_dict({"weight": made.params["weight"].to(attempt.device)})
        got = {"result": module(self.on_device(attempt, made).inputs["x"]).detach()}
        self.compare(attempt, draw, "all arguments by position", made, got, torch.float32, None)

    @core
    def test_weight_starts_as_ones(self, attempt: Attempt) -> None:
        with torch.no_grad():
            weight = attempt.RMSNorm(7).describe()["parameters"].get("weight")
        if weight is None or not torch.equal(weight, torch.ones(7)):
            fail("weight is initialised to ones", f"got {weight if weight is None else weight.tolist()}")


BUGS = [
    Bug(
        "the sum of squares instead of their mean",
        "the root of a sum grows with the width.",
        "mean_square = wide.square().mean(dim=-1, keepdim=True)",
        "mean_square = wide.square().sum(dim=-1, keepdim=True)",
    ),
    Bug(
        "the mean subtracted",
        "that is LayerNorm; RMSNorm subtracts nothing.",
        "mean_square = wide.square().mean(dim=-1, keepdim=True)",
        "wide = wide - wide.mean(dim=-1, keepdim=True); mean_square = wide.square().mean(dim=-1, keepdim=True)",
    ),
    Bug(
        "divided by the deviation",
        "the mean square is taken of x itself, not of its distance from the mean.",
        "mean_square = wide.square().mean(dim=-1, keepdim=True)",
        "mean_square = wide.var(dim=-1, keepdim=True, correction=0)",
    ),
    Bug(
        "eps outside the square root",
        "eps is added to the mean of squares; added to its root it weighs far less.",
        "normed = wide * torch.rsqrt(mean_square + self.eps)",
        "normed = wide / (mean_square.sqrt() + self.eps)",
    ),
    Bug(
        "no eps",
        "without eps a vector of zeros is 0/0.",
        "normed = wide * torch.rsqrt(mean_square + self.eps)",
        "normed = wide * torch.rsqrt(mean_square)",
    ),
    Bug(
        "eps ignored",
        "eps is an argument.",
        "self.eps = eps",
        "self.eps = 1e-5",
    ),
    Bug(
        "no square root",
        "x is divided by the root of the mean square.",
        "normed = wide * torch.rsqrt(mean_square + self.eps)",
        "normed = wide / (mean_square + self.eps)",
    ),
    Bug(
        "the mean over the sequence too",
        "each vector has a norm of its own.",
        "mean_square = wide.square().mean(dim=-1, keepdim=True)",
        "mean_square = wide.square().mean(dim=tuple(range(-min(2, wide.ndim), 0)), keepdim=True)",
    ),
    Bug(
        "no weight",
        "each entry is scaled by its weight.",
        "return (normed * self.weight).to(x.dtype)",
        "return (normed + 0 * self.weight).to(x.dtype)",
    ),
    Bug(
        "1 + weight",
        "that is Gemma's way, whose weights start at 0; these start at 1.",
        "return (normed * self.weight).to(x.dtype)",
        "return (normed * (1 + self.weight)).to(x.dtype)",
    ),
    Bug(
        "weight starts as zeros",
        "a norm starts as the plain norm: its weight is 1.",
        "self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))",
        "self.weight = nn.Parameter(torch.zeros(d_model, device=device, dtype=dtype))",
    ),
    Bug(
        "an explicit dtype ignored",
        "the parameter is made in the dtype that the constructor is given.",
        "self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))",
        "self.weight = nn.Parameter(torch.ones(d_model, device=device))",
    ),
    Bug(
        "squared in half precision",
        "300² is beyond float16: the mean of squares is taken in float32.",
        "mean_square = wide.square().mean(dim=-1, keepdim=True)",
        "mean_square = x.square().mean(dim=-1, keepdim=True)",
    ),
    Bug(
        "the result left in float32",
        "the result has the dtype of the input.",
        "return (normed * self.weight).to(x.dtype)",
        "return normed * self.weight",
    ),
]

EQUIVALENT = (WIDER,)
