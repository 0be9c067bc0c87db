"""What `SinusoidalPositions` and `LearnedPositions` must do. The oracle takes sines from complex numbers in float64."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, ModuleContract, PrecomputedTablesContract, drawn_from_normal, robust
from dojo.contracts.oracles import sinusoids, sinusoids_by_float32_angles


def waves(x: Tensor) -> Tensor:
    """In float32 at least, rounded once."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x.to(wide) + sinusoids(*x.shape[-2:]).to(wide)).to(x.dtype)


def waves_rounded_first(x: Tensor) -> Tensor:
    return x + sinusoids(*x.shape[-2:]).to(x.dtype)


def waves_of_float32_angles(x: Tensor) -> Tensor:
    return x + sinusoids_by_float32_angles(*x.shape[-2:]).to(x.dtype)


def rows(params: dict, x: Tensor) -> Tensor:
    return x + params["weight"][: x.shape[-2]]


def rows_looked_up(params: dict, x: Tensor) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    return (F.embedding(torch.arange(x.shape[-2]), params["weight"].to(wide)) + x.to(wide)).to(x.dtype)


def rows_by_product(params: dict, x: Tensor) -> Tensor:
    return torch.eye(len(params["weight"]), dtype=x.dtype)[: x.shape[-2]] @ params["weight"] + x


class PositionsContract(ModuleContract):
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    cases = {
        "a_batch": {},
        "as_long_as_allowed": {"seq": 11},
        "as_many_tokens_as_entries": {"shape": (5,)},
        "wider": {"seq": 7, "d_model": 10, "max_len": 7},
    }
    more_shapes = {
        "no_leading_dimensions": {"shape": ()},
        "four_dimensions": {"shape": (2, 3)},
        "two_columns": {"d_model": 2},
        "one_position": {"seq": 1, "max_len": 1},
    }
    grows = {"batch": "shape", "seq": "seq", "width": "d_model"}
    memory_in = "seq"
    timed = {"shape": (16,), "seq": 256, "d_model": 256}
    time_limit = 12.0

    @classmethod
    def call(cls, d: Draw, shape: tuple = (2,), seq: int = 5, d_model: int = 6, max_len: int = 0) -> Call:
        init = {"max_len": max_len or max(seq, 11), "d_model": d_model}
        x = d.normal(*shape, seq, d_model)
        return Call({"x": x}, init, cls.params(d, init, weight=d_model**0.5))


class TestSinusoidalPositions(PrecomputedTablesContract, PositionsContract):
    name = "SinusoidalPositions"
    oracle = waves
    variants = (waves_rounded_first, waves, waves_of_float32_angles)
    hard_cases = {"far_positions": {"shape": (1,), "seq": 5003, "d_model": 4, "max_len": 5009}}
    representative = ("a_batch", "far_positions")
    holds = {"Far positions": ("test_hard_cases", "test_half_precision")}


class TestLearnedPositions(PositionsContract):
    name = "LearnedPositions"
    oracle = rows
    variants = (rows, rows_looked_up, rows_by_product)
    holds = {"Initialization": ("test_weight_is_drawn",)}
    cases = PositionsContract.cases | {"an_odd_width": {"d_model": 7}}

    @robust
    def test_weight_is_drawn_from_a_normal(self, attempt: Attempt) -> None:
        """Positions of deviation 1, as `nn.Embedding` draws them, drown the tokens that they are added to."""
        sentence = "weight is normal with standard deviation 0.02"
        drawn_from_normal(attempt.LearnedPositions, (400, 200), 0.02, math.inf, sentence)
