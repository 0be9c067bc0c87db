"""What `LayerNorm` must do. The oracle is torch's own in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Draw, Formula, NormContract, half_precisions, match, robust
from dojo.contracts.oracles import LayerNorm, layer_norm, library_layer_norm, library_rms_norm


def formula(norm: LayerNorm) -> Formula:
    return lambda init, params, x: norm(x, params["weight"], params["bias"], init["eps"])


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
    }
    hard_cases = NormContract.hard_cases | {"mean_ten_thousand_times_the_spread": {"offset": 1e4}}
    holds = {
        "Eps": ("test_values_match", "test_hard_cases"),
        "Large means": ("test_a_mean_of_ten_thousand",),
        "Half precision": ("test_half_precision", "test_float16_values"),
    }
    representative = ("a_batch", "inputs_as_small_as_eps", "a_vector_of_equal_entries")
    near_300 = {"shape": (3,), "std": [[8.0], [8.0], [300.0]], "offset": [[300.0], [300.0], [0.0]]}

    def plain(self, attempt: Attempt, call: Call, told: str, dtype: torch.dtype, sentence: str, allowed: float) -> None:
        """Without weight and bias no entry is off by more than is allowed and one rounding."""
        call = call.with_params(**{k: torch.full_like(v, float(k == "weight")) for k, v in call.params.items()}).cast(
            dtype
        )
        got, expected = self.run(attempt, told, call, dtype), self.expected(call)
        with self.case_context(attempt, told, call):
            match(got, expected, allowed + torch.finfo(dtype).eps * expected.abs(), sentence, self.axes["result"])

    @robust
    def test_a_mean_of_ten_thousand_spreads_costs_no_accuracy(self, attempt: Attempt, draw: Draw) -> None:
        """Features with a large common offset turn into noise, or into nan."""
        sentence = "where the mean is 10⁴ times the spread no entry is off by more than 0.01"
        self.plain(attempt, self.call(draw, offset=1e4), "a mean of 10⁴", torch.float32, sentence, 0.01)

    @robust
    @half_precisions
    def test_half_precision_means_are_taken_in_float32(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """Beside a mean of 100 bfloat16 has steps of a half: the whole vector is shifted by up to a quarter."""
        sentence = "half precision has its mean taken, and subtracted, in float32"
        told = "a mean of 100 and a spread of 2"
        self.plain(attempt, self.call(draw, shape=(8,), d_model=64, std=2.0, offset=100.0), told, dtype, sentence, 1e-3)
