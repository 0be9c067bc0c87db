"""What `LayerNorm` must do. The oracle is torch's own in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Ban, Formula, KnownBugs, NormContract
from dojo.contracts.oracles import LayerNorm, layer_norm, library_layer_norm, library_rms_norm


def formula(norm: LayerNorm) -> Formula:
    return lambda init, params, x: norm(x, params["weight"], params["bias"], init.get("eps", 1e-5))


def as_rms_norm_of_the_rest(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    """What is left after subtracting the mean, divided by its root mean square."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    rest = wide - wide.sum(-1, keepdim=True) / x.shape[-1]
    return (library_rms_norm(rest, weight, eps) + bias).to(x.dtype)


class TestLayerNorm(NormContract):
    name = "LayerNorm"
    oracle = staticmethod(formula(library_layer_norm))
    variants = (formula(layer_norm), formula(library_layer_norm), formula(as_rms_norm_of_the_rest))
    ban = Ban(
        r"(layer|rms|batch|group|instance)_norm",
        ("torch._refs.native_layer_norm", "torch._refs.nn.functional.layer_norm", "torch._refs.native_group_norm"),
    )
    cases = NormContract.cases | {
        "a_vector_of_equal_entries": {"shape": (3,), "std": [[1.0], [0.0], [1.0]], "offset": 2.0},
        "mean_ten_thousand_times_the_spread": {"offset": 1e4},
    }
    representative = ("a_batch", "inputs_as_small_as_eps", "a_vector_of_equal_entries")
    near_300 = {"shape": (3,), "std": [[8.0], [8.0], [300.0]], "offset": [[300.0], [300.0], [0.0]]}


BUGS = KnownBugs(
    """
divided by n - 1
    the variance is biased, a plain mean of squares.
    centred.square().mean(dim=-1, keepdim=True)  →  wide.var(dim=-1, keepdim=True)
the mean not subtracted
    that is RMSNorm; LayerNorm shifts to mean 0 first.
    centred = wide - wide.mean(  →  centred = wide - 0 * wide.mean(
the mean subtracted for the variance only
    what is divided is the distance from the mean.
    normed = centred *  →  normed = wide *
the variance as E[x²] - E[x]² in float32
    two large numbers cancel, and what is left is their rounding: subtract the mean before squaring.
    centred.square().mean(dim=-1, keepdim=True)
    →  wide.square().mean(dim=-1, keepdim=True) - wide.mean(dim=-1, keepdim=True).square()
eps outside the square root
    eps is added to the variance; added to its root it weighs far less.
    centred * torch.rsqrt(variance + self.eps)  →  centred / (variance.clamp_min(1e-30).sqrt() + self.eps)
mean and variance over the sequence too
    each vector is normalised by itself.
    centred = wide - wide.mean(dim=-1  →  axes = tuple(range(-min(2, wide.ndim), 0))
        centred = wide - wide.mean(dim=axes
no bias
    the bias is added last.
    * self.weight + self.bias  →  * self.weight + 0 * self.bias
the bias added before the weight multiplies
    weight first, then bias.
    normed * self.weight + self.bias  →  (normed + self.bias) * self.weight
bias starts as ones
    a norm starts as the plain norm: its bias is 0.
    torch.zeros(d_model  →  torch.ones(d_model
reduced in half precision
    a sum of squares overflows float16, and a mean in bfloat16 keeps two digits.
    wide = x.to(torch.promote_types(x.dtype, torch.float32))  →  wide = x + 0
the result left in float32
    the result has the dtype of the input.
    (normed * self.weight + self.bias).to(x.dtype)  →  normed * self.weight + self.bias
""",
    builds_on=("rmsnorm",),
)
