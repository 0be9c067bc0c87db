"""What `dropout` must do. The oracle decides entry by entry, in Python."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Contract, Draw, half_precisions, match, robust


def entry_by_entry(x: Tensor, uniform: Tensor, p: float, training: bool) -> Tensor:
    if not training:
        return x
    factors = [1 / (1 - p) if drawn >= p else 0.0 for drawn in uniform.flatten().tolist()]
    return x * x.new_tensor(factors).view(x.shape)


def times_the_mask(x: Tensor, uniform: Tensor, p: float, training: bool) -> Tensor:
    return x * (uniform >= p) / (1 - p or 1) if training else x


def times_the_scaled_mask(x: Tensor, uniform: Tensor, p: float, training: bool) -> Tensor:
    """In half precision the scale is rounded as well, as it is in torch's own."""
    return x * ((uniform >= p).to(x.dtype) / (1 - p or 1)) if training else x


def filled(x: Tensor, uniform: Tensor, p: float, training: bool) -> Tensor:
    return x.masked_fill(uniform < p, 0.0) * (1 / (1 - p or 1)) if training else x


class TestDropout(Contract):
    name = "dropout"
    oracle = entry_by_entry
    variants = (times_the_mask, times_the_scaled_mask, filled)
    ban = Ban("dropout")
    constants = ("uniform",)
    axes = dict.fromkeys(("x", "uniform", "result"), "batch rows columns")
    holds = {
        "Ends": ("test_hard_cases", "test_an_entry_at_p"),
        "Gradient": ("test_gradients",),
        "Half precision": ("test_uniform_is_compared",),
        "Errors": ("test_p_outside",),
    }
    cases = {
        "a_quarter_dropped": {"p": 0.25},
        "half_dropped_by_default": {},
        "most_dropped": {"shape": (8, 64), "p": 0.96875},
        "in_evaluation": {"p": 0.25, "training": False},
    }
    hard_cases = {"p_of_0": {"p": 0.0, "uniform": torch.zeros(4, 7)}, "p_of_1": {"p": 1.0}}
    # Timed inputs are multiplied by 0.5 to 1.5: these stay clear of p, where a rounding would tell.
    timed = {"shape": (256, 512), "uniform": torch.arange(2).repeat(256, 256) / 2, "p": 0.125}

    @classmethod
    def call(cls, d: Draw, shape: tuple = (4, 7), **more: float | Tensor) -> Call:
        return Call({"x": d.normal(*shape), "uniform": d.uniform(*shape)} | more, wide=("uniform",))

    @robust
    def test_an_entry_at_p_is_kept(self, attempt: Attempt, draw: Draw) -> None:
        """At p = 0 an activation is lost now and then: random numbers of float32 are 0 once in 16 million."""
        for p in (0.0, 0.5):  # exact, for where the oracle itself jumps an error budget allows anything
            call = self.call(draw, uniform=torch.full((4, 7), p), p=p)
            got, exact = self.run(attempt, f"uniform is {p}", call), call.inputs["x"] / (1 - p)
            match(got, exact, None, "an entry is kept where uniform equals p", self.axes["result"])

    @robust
    @half_precisions
    def test_uniform_is_compared_in_float32(self, attempt: Attempt, draw: Draw, dtype: torch.dtype) -> None:
        """The same random numbers drop other entries than in float32, so that no two runs can be compared."""
        uniform = torch.tensor([0.29999, 0.30001]).repeat(4, 4)
        self.verify(attempt, draw, "uniform_beside_p", self.call(draw, (4, 8), uniform=uniform, p=0.3), dtype)

    @robust
    def test_p_outside_0_to_1_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A p of 10, meant as percent, drops everything, and nobody is told."""
        for training in (True, False):
            self.refuses_each(attempt, self.call(draw, training=training), p=(-0.1, 1.5, 10.0))
