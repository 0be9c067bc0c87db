"""What `SinusoidalPositions` and `LearnedPositions` must do. The oracle takes sines from complex numbers in float64."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from dojo.contracts import (
    WIDER,
    Attempt,
    Call,
    Draw,
    Equivalent,
    KnownBugs,
    ModuleContract,
    PrecomputedTablesContract,
    assert_raises,
    drawn_from_normal,
    robust,
)
from dojo.contracts.oracles import sinusoids, sinusoids_by_float32_angles


def waves(init: dict, params: dict, x: Tensor) -> Tensor:
    """In float32 at least, rounded once."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x.to(wide) + sinusoids(*x.shape[-2:]).to(wide)).to(x.dtype)


def waves_rounded_first(init: dict, params: dict, x: Tensor) -> Tensor:
    return x + sinusoids(*x.shape[-2:]).to(x.dtype)


def waves_of_float32_angles(init: dict, params: dict, x: Tensor) -> Tensor:
    return x + sinusoids_by_float32_angles(*x.shape[-2:]).to(x.dtype)


def rows(init: dict, params: dict, x: Tensor) -> Tensor:
    return x + params["weight"][: x.shape[-2]]


def rows_looked_up(init: dict, params: dict, x: Tensor) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    return (F.embedding(torch.arange(x.shape[-2]), params["weight"].to(wide)) + x.to(wide)).to(x.dtype)


def rows_by_product(init: dict, params: dict, x: Tensor) -> Tensor:
    return torch.eye(len(params["weight"]), dtype=x.dtype)[: x.shape[-2]] @ params["weight"] + x


class PositionsContract(ModuleContract):
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    cases = {
        "a_batch": {"batch": 2},
        "as_long_as_allowed": {"seq": 11},
        "as_many_tokens_as_entries": {"batch": 5},
        "wider": {"seq": 7, "pairs": 5, "max_len": 7},
    }
    more_shapes = {
        "no_leading_dimensions": {"leading": ()},
        "four_dimensions": {"leading": (2, 3)},
        "one_token": {"seq": 1},
        "two_columns": {"pairs": 1},
        "far_positions": {"batch": 1, "seq": 5003, "pairs": 2, "max_len": 5009},
        "one_position": {"seq": 1, "max_len": 1},
    }
    precision_sensitive = {"batch": 1, "seq": 307, "max_len": 313}
    near_300 = {"offset": 300.0}
    grows = {"batch": "batch", "seq": "seq", "width": "pairs"}
    memory_in = "seq"
    timed = {"batch": 16, "seq": 256, "pairs": 128}
    time_limit = 12.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, seq: int = 5, pairs: int = 3, max_len: int = 0, offset: float = 0.0,
        leading: tuple | None = None, width: int = 0,
    ) -> Call:  # fmt: skip
        leading, width = (batch,) if leading is None else leading, width or 2 * pairs
        init = {"max_len": max_len or max(seq, 11), "d_model": width}
        return Call({"x": offset + d.normal(*leading, seq, width)}, init, cls.params(d, init, weight=width**0.5))

    @robust
    def test_longer_sequences_than_allowed_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A table of one row serves any length by broadcasting, and a longer one tells of shapes, not of lengths."""
        for max_len, seq in ((11, 12), (11, 17), (1, 3)):
            module = self.ready(attempt, type(self).call(draw, seq=1, max_len=max_len))
            x = draw.normal(2, seq, 6).to(attempt.device)
            assert_raises(partial(module, x), seq, sentence="seq > max_len is a ValueError")


class TestSinusoidalPositions(PrecomputedTablesContract, PositionsContract):
    name = "SinusoidalPositions"
    oracle = waves
    variants = (waves_rounded_first, waves, waves_of_float32_angles)

    @robust
    def test_an_odd_width_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """An odd width ends in an error about shapes: the annotated transformer does this too."""
        for width in (7, 1):
            x = draw.normal(2, 5, width).to(attempt.device)
            sentence = "an odd d_model is a ValueError"
            assert_raises(lambda x=x, width=width: attempt.SinusoidalPositions(11, width)(x), width, sentence=sentence)


class TestLearnedPositions(PositionsContract):
    name = "LearnedPositions"
    oracle = rows
    variants = (rows, rows_looked_up, rows_by_product)
    cases = PositionsContract.cases | {"an_odd_width": {"width": 7}}

    @robust
    def test_weight_is_drawn_from_a_normal(self, attempt: Attempt) -> None:
        """Positions of deviation 1, as `nn.Embedding` draws them, drown the tokens that they are added to."""
        sentence = "weight is normal with standard deviation 0.02"
        drawn_from_normal(attempt.LearnedPositions, (400, 200), 0.02, math.inf, sentence)


BUGS = KnownBugs(
    """
sines in the first half, cosines in the second
    sines stand in even columns and cosines in odd ones.
    table[:, 1::2] = angles.cos()  →  table = torch.cat([angles.sin(), angles.cos()], dim=1)
cosines in even columns
    sines stand in even columns and cosines in odd ones.
    table[:, 0::2] = angles.sin()  →  table[:, 0::2] = angles.cos()
    table[:, 1::2] = angles.cos()  →  table[:, 1::2] = angles.sin()
exponent i / d instead of 2i / d
    the arange in steps of 2 already holds the 2i of the formula; pair i has the speed 10000^(-2i/d).
    torch.arange(0, d_model, 2, dtype=torch.float64)  →  torch.arange(d_model // 2, dtype=torch.float64)
a speed for each column
    the two columns of a pair share a speed: the cosine at 2i + 1 has the exponent 2i too.
    table[:, 1::2] = angles.cos()  →  table[:, 1::2] = (angles * 10000.0 ** (-1 / d_model)).cos()
the column doubled: exponents 2j / d for column j
    the 2i of the formula is the column already: columns 2i and 2i + 1 have the exponent 2i / d.
    table[:, 0::2] = angles.sin()  →  table[:, 0::2] = (angles * speed).sin()
    table[:, 1::2] = angles.cos()  →  table[:, 1::2] = (angles * speed * 10000.0 ** (-2 / d_model)).cos()
positions in float16
    float16 holds whole numbers up to 2,048 and bfloat16 up to 256: beyond, neighbours share a row.
    torch.arange(max_len, dtype=torch.float64)  →  torch.arange(max_len).half().double()
the base 1000
    the base of the paper is 10000.
    10000.0 ** (-  →  1000.0 ** (-
exponent without its minus
    later pairs are slower, not faster.
    10000.0 ** (-torch.arange  →  10000.0 ** (torch.arange
positions counted from 1
    the first token stands at position 0.
    torch.arange(max_len,  →  torch.arange(1, max_len + 1,
the table instead of the sum
    positions are added to x.
    return (wide + rows)  →  return (0 * wide + rows)
x scaled by the root of d_model
    that is part of the model of 2017, not of its positions.
    return (wide + rows)  →  return (wide * x.shape[-1] ** 0.5 + rows)
the input overwritten
    `x += ...` changes the caller's tensor.
    return (wide + rows).to(x.dtype)  →  with torch.no_grad():
            x += rows.to(x.dtype)
        return x
a table rounded when the module is cast
    a buffer is cast with the module, and bfloat16 keeps three digits of a sine.
    self.table = table.to(device)  →  self.register_buffer("table", table.to(device), persistent=False)
a table that is saved with the weights
    a table can be computed: it has no place in the state dict.
    .to(device)  →  .to(device)
        self.register_buffer("positions", self.table)
a sinusoidal table that is a parameter
    sines and cosines are not learned.
    .to(device)  →  .to(device)
        self.weight = nn.Parameter(self.table.to(dtype), requires_grad=False)
an odd width not refused
    sines and cosines come in pairs.
    if d_model % 2 != 0:  →  if False:
longer sequences not refused by the sinusoids
    a shape that does not fit tells the caller nothing.
    if seq > len(self.table):  →  if False:
longer sequences not refused by the learned positions
    a shape that does not fit tells the caller nothing.
    if length > len(self.weight):  →  if False:
a table that is not a parameter
    learned positions are learned: a tensor kept as a plain attribute never is.
    nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype))
    →  torch.empty(max_len, d_model, device=device, dtype=dtype)
standard deviation 1
    learned positions start small, with deviation 0.02.
    mean=0.0, std=0.02  →  mean=0.0, std=1.0
learned positions start as zeros
    they start from a normal of deviation 0.02.
    nn.init.normal_(self.weight, mean=0.0, std=0.02)  →  nn.init.zeros_(self.weight)
the last rows instead of the first
    the first token stands at position 0.
    self.weight[:length]  →  self.weight[-length:]
the same row for every token
    each position has a row of its own.
    self.weight[:length]  →  self.weight[length - 1]
learned positions detached from the graph
    a table that gets no gradient never learns.
    self.weight[:length]  →  self.weight[:length].detach()
"""
)

EQUIVALENT = (
    WIDER,
    Equivalent(r"float64.*→", "float32 angles of these tables are within float32 arithmetic."),
    Equivalent(r"wide = .*→.*(wide = x$|float16)", "the table is float64, so the sum is too."),
    Equivalent(r"\.to\(wide.*→.*", "the table stays float64, which is wider; the result is cast."),
    Equivalent(r"\.to\(device\).*→", "a table of the CPU follows the input at the first call."),
    Equivalent(r"mean=0\.0.*→", "0 is the default."),
)
