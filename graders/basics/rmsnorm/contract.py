"""What `RMSNorm` must do. The oracle is torch's own in float64."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Ban, Formula, NormContract
from dojo.contracts.oracles import Norm, library_rms_norm, rms_norm


def formula(norm: Norm) -> Formula:
    return lambda init, params, x: norm(x, params["weight"], init["eps"])


def by_length(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """√n · x / √(‖x‖² + n eps)."""
    wide, size = x.to(torch.promote_types(x.dtype, torch.float32)), x.shape[-1]
    length = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    return (wide * (size**0.5 / torch.hypot(length, length.new_tensor((size * eps) ** 0.5))) * weight).to(x.dtype)


class TestRMSNorm(NormContract):
    name = "RMSNorm"
    oracle = staticmethod(formula(library_rms_norm))
    variants = (formula(rms_norm), formula(library_rms_norm), formula(by_length))
    ban = Ban(r"rms_norm|layer_norm", ("torch._refs.native_layer_norm", "torch._refs.nn.functional.layer_norm"))
    cases = NormContract.cases | {"a_vector_of_zeros": {"shape": (3,), "std": [[1.0], [0.0], [1.0]]}}
    rounded_once = True
    holds = {
        "Eps": ("test_values_match", "test_hard_cases"),
        "Half precision": ("test_half_precision", "test_float16_values"),
    }
    representative = ("a_batch", "inputs_as_small_as_eps", "a_vector_of_zeros")
    near_300 = {"shape": (3,), "offset": 300.0}
