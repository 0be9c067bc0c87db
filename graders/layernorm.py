"""What `LayerNorm` must do. The oracle is torch's own in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.bugs import WIDER, Bug
from dojo.contract import core
from dojo.expect import Ban, Call, Draw, fail, parameters_are
from dojo.formulas import layer_norm, library_layer_norm
from dojo.judge.proxy import Attempt
from dojo.norming import NormContract


def library(init: dict, params: dict, x: Tensor) -> Tensor:
    return library_layer_norm(x, params["weight"], params["bias"], init.get("eps", 1e-5))


def rounded_before_the_weight(init: dict, params: dict, x: Tensor) -> Tensor:
    return layer_norm(x, params["weight"], params["bias"], init.get("eps", 1e-5))


def as_rms_norm_of_the_rest(init: dict, params: dict, x: Tensor) -> Tensor:
    """What is left after subtracting the mean, divided by its root mean square."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    rest = wide - wide.sum(-1, keepdim=True) / x.shape[-1]
    normed = F.rms_norm(rest, rest.shape[-1:], params["weight"].to(wide.dtype), init.get("eps", 1e-5))
    return (normed + params["bias"].to(wide.dtype)).to(x.dtype)


def call(d: Draw, *shape: int, size: int = 7, loud: float = 1.0, mean: float = 0.5, **init: float) -> Call:
    """A call on inputs of standard deviation `loud` about `mean` times that."""
    params = {"weight": d.uniform(size, low=-2, high=2), "bias": d.normal(size)}
    return Call({"x": (mean + d.normal(*shape, size)) * loud}, {"d_model": size, **init}, params)


def with_equal_entries(d: Draw) -> Call:
    made = call(d, 3)
    return made.with_inputs(x=made.inputs["x"] * torch.tensor([[1.0], [0.0], [1.0]]) + 2)


class TestLayerNorm(NormContract):
    name = "LayerNorm"
    oracle = library
    variants = (rounded_before_the_weight, library, as_rms_norm_of_the_rest)
    ban = Ban(
        r"(layer|rms|batch|group|instance)_norm",
        ("torch._refs.native_layer_norm", "torch._refs.nn.functional.layer_norm", "torch._refs.native_group_norm"),
    )
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    cases = {
        "one_vector_in_a_batch": lambda d: call(d, 1),
        "a_batch": lambda d: call(d, 2, 5),
        "as_many_tokens_as_entries": lambda d: call(d, 7, 7),
        "inputs_as_small_as_eps": lambda d: call(d, 2, 5, loud=0.003),
        "another_eps": lambda d: call(d, 2, 5, eps=0.5),
        "a_tiny_eps": lambda d: call(d, 2, 5, loud=1e-5, eps=1e-12),
        "no_eps": lambda d: call(d, 2, 5, loud=1e-3, eps=0.0),
        "a_vector_of_equal_entries": with_equal_entries,
        "mean_ten_thousand_times_the_spread": lambda d: call(d, 2, 5, mean=1e4),
        "large_inputs": lambda d: call(d, 2, 5, loud=1e4),
    }
    telling = ("a_batch", "inputs_as_small_as_eps", "a_vector_of_equal_entries")
    more_shapes = {
        "no_leading_dimensions": lambda d: call(d),
        "three_leading_dimensions": lambda d: call(d, 2, 3, 4),
        "one_entry": lambda d: call(d, 3, size=1),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 5),
        "seq": lambda d, n: call(d, 2, n),
        "width": lambda d, n: call(d, 2, 3, size=n),
    }
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        return call(d, 3).with_inputs(x=torch.cat([300 + d.normal(2, 7, scale=8), d.normal(1, 7, scale=300)]))

    @staticmethod
    def linear_in(d: Draw, n: int) -> Call:
        return call(d, 1, n)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 1024, size=512)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = call(draw, 2, 5, eps=0.5)
        module = attempt.LayerNorm(*made.init.values())
        parameters_are(module, {"weight": (7,), "bias": (7,)})
        module.to(attempt.device).load_state_dict({k: v.to(attempt.device) for k, v in made.params.items()})
        got = {"result": module(self.on_device(attempt, made).inputs["x"]).detach()}
        self.compare(attempt, draw, "all arguments by position", made, got, torch.float32, None)

    @core
    def test_weight_starts_as_ones_and_bias_as_zeros(self, attempt: Attempt) -> None:
        with torch.no_grad():
            found = attempt.LayerNorm(7).describe()["parameters"]
        for name, expected in (("weight", torch.ones(7)), ("bias", torch.zeros(7))):
            got = found.get(name)
            if got is None or not torch.equal(got, expected):
                seen = None if got is None else got.tolist()
                fail(f"{name} is initialised to {'ones' if name == 'weight' else 'zeros'}", f"got {seen}")


BUGS = [
    Bug(
        "divided by n - 1",
        "the variance is biased, a plain mean of squares.",
        "variance = centred.square().mean(dim=-1, keepdim=True)",
        "variance = wide.var(dim=-1, keepdim=True)",
    ),
    Bug(
        "the mean not subtracted",
        "that is RMSNorm; LayerNorm shifts to mean 0 first.",
        "centred = wide - wide.mean(dim=-1, keepdim=True)",
        "centred = wide + 0 * wide.mean(dim=-1, keepdim=True)",
    ),
    Bug(
        "the mean subtracted for the variance only",
        "what is divided is the distance from the mean.",
        "normed = centred * torch.rsqrt(variance + self.eps)",
        "normed = wide * torch.rsqrt(variance + self.eps)",
    ),
    Bug(
        "the variance as E[x²] - E[x]² in float32",
        "two large numbers cancel, and what is left is their rounding: subtract the mean before squaring.",
        "variance = centred.square().mean(dim=-1, keepdim=True)",
        "variance = wide.square().mean(dim=-1, keepdim=True) - wide.mean(dim=-1, keepdim=True).square()",
    ),
    Bug(
        "eps outside the square root",
        "eps is added to the variance; added to its root it weighs far less.",
        "normed = centred * torch.rsqrt(variance + self.eps)",
        "normed = centred / (variance.clamp_min(1e-30).sqrt() + self.eps)",
    ),
    Bug(
        "no eps",
        "without eps a vector of equal entries is 0/0.",
        "normed = centred * torch.rsqrt(variance + self.eps)",
        "normed = centred * torch.rsqrt(variance)",
    ),
    Bug(
        "eps ignored",
        "eps is an argument.",
        "self.eps = eps",
        "self.eps = 1e-5",
    ),
    Bug(
        "no square root",
        "the distance is divided by the deviation, the root of the variance.",
        "normed = centred * torch.rsqrt(variance + self.eps)",
        "normed = centred / (variance + self.eps)",
    ),
    Bug(
        "mean and variance over the sequence too",
        "each vector is normalised by itself.",
        "centred = wide - wide.mean(dim=-1, keepdim=True)",
        "axes = tuple(range(-min(2, wide.ndim), 0)); centred = wide - wide.mean(dim=axes, keepdim=True)",
    ),
    Bug(
        "no bias",
        "the bias is added last.",
        "return (normed * self.weight + self.bias).to(x.dtype)",
        "return (normed * self.weight + 0 * self.bias).to(x.dtype)",
    ),
    Bug(
        "the bias added before the weight multiplies",
        "weight first, then bias.",
        "return (normed * self.weight + self.bias).to(x.dtype)",
        "return ((normed + self.bias) * self.weight).to(x.dtype)",
    ),
    Bug(
        "bias starts as ones",
        "a norm starts as the plain norm: its bias is 0.",
        "self.bias = nn.Parameter(torch.zeros(d_model, device=device, dtype=dtype))",
        "self.bias = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))",
    ),
    Bug(
        "an explicit dtype ignored",
        "parameters are made in the dtype that the constructor is given.",
        "self.bias = nn.Parameter(torch.zeros(d_model, device=device, dtype=dtype))",
        "self.bias = nn.Parameter(torch.zeros(d_model, device=device))",
    ),
    Bug(
        "reduced in half precision",
        "a sum of squares overflows float16, and a mean in bfloat16 keeps two digits.",
        "wide = x.to(torch.promote_types(x.dtype, torch.float32))",
        "wide = x + 0",
    ),
    Bug(
        "the result left in float32",
        "the result has the dtype of the input.",
        "return (normed * self.weight + self.bias).to(x.dtype)",
        "return normed * self.weight + self.bias",
    ),
]

EQUIVALENT = (WIDER,)
