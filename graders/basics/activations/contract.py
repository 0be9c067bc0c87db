"""What `sigmoid`, `silu` and `gelu` must do. The oracles are torch's own in float64."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from dojo.contracts import Ban, Call, Draw, RoundedOnceContract

SIGMOIDS = (
    lambda x: torch.sigmoid(x),
    lambda x: 0.5 * (1 + torch.tanh(x / 2)),
    lambda x: torch.where(x >= 0, 1 / (1 + torch.exp(-x.clamp(min=0))), 1 - 1 / (1 + torch.exp(x.clamp(max=0)))),
    lambda x: 1 / (1 + torch.exp(-x.clamp(min=-40))),  # far below zero a number that is none beside 1
)
SILUS = (lambda x: F.silu(x), *(lambda x, sigmoid=sigmoid: x * sigmoid(x) for sigmoid in SIGMOIDS))
GELUS = (
    lambda x: F.gelu(x),
    lambda x: 0.5 * x * (1 + torch.erf(x * 0.5**0.5)),
    lambda x: x / 2 + x / 2 * torch.erf(x / 2**0.5),
)
IN_PYTHON = """
    torch._refs.sigmoid torch._refs.special.expit torch._refs.nn.functional.gelu torch._refs.nn.functional.softplus
    torch._decomp.decompositions.silu torch.distributions.transforms.SigmoidTransform._call
"""


class ActivationContract(RoundedOnceContract):
    ban = Ban(r"sigmoid|silu|gelu|softplus|expit|\bglu\b", tuple(IN_PYTHON.split()))
    cases = {
        "around_zero": {"scale": 2.0},
        "a_few_deviations_out": {"shape": (2, 3, 7), "scale": 8.0},
        "far_from_zero": {"values": [-300.0, -90.0, -30.0, 0.0, -0.0, 1.0, 30.0, 90.0, 300.0]},
        "zero_alone": {"values": [0.0, 0.0, 0.0]},
    }
    hard_cases = {
        "very_far_from_zero": {"values": [-1e4, -300.0, 0.0, 1.0, 300.0, 1e4]},
        "far_below_zero": {"values": [-1e4, -1e3, -100.0, -1e4]},
    }
    more_shapes = {"one_number": {"shape": ()}, "one_entry": {"shape": (1,)}, "five_axes": {"shape": (2, 3, 1, 5, 4)}}
    near_300 = {"values": [300.0, -300.0, 6e4, -6e4, 12.0, -12.0]}
    holds = {
        "Far from zero": ("test_hard_cases",),
        "Half precision": ("test_half_precision", "test_float16_values"),
    }
    memory_in = "shape"
    timed = {"shape": (512, 512), "scale": 3.0}
    time_limit = 12.0

    @classmethod
    def call(cls, d: Draw, shape: tuple = (3, 5), scale: float = 1.0, values: list | None = None) -> Call:
        return Call({"x": scale * d.normal(*shape) if values is None else torch.tensor(values)})


class TestSigmoid(ActivationContract):
    name = "sigmoid"
    oracle, variants = SIGMOIDS[0], SIGMOIDS


class TestSiLU(ActivationContract):
    name = "silu"
    oracle, variants = SILUS[0], SILUS


class TestGELU(ActivationContract):
    name = "gelu"
    oracle, variants = GELUS[0], GELUS
