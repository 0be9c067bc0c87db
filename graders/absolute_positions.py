"""What `SinusoidalPositions` and `LearnedPositions` must do. The oracle takes sines from complex numbers in float64."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from dojo.bugs import WIDER, Bug, Equivalent
from dojo.contract import Maker, ModuleContract, TabledContract, core, robust
from dojo.expect import Call, Draw, drawn_from_normal, parameters_are, refuses
from dojo.formulas import sinusoids
from dojo.judge.proxy import Attempt


def waves(init: dict, params: dict, x: Tensor) -> Tensor:
    """In float32 at least, rounded once."""
    wide = torch.promote_types(x.dtype, torch.float32)
    return (x.to(wide) + sinusoids(*x.shape[-2:]).to(wide)).to(x.dtype)


def waves_rounded_first(init: dict, params: dict, x: Tensor) -> Tensor:
    return x + sinusoids(*x.shape[-2:]).to(x.dtype)


def waves_of_float32_angles(init: dict, params: dict, x: Tensor) -> Tensor:
    """The least accurate of the usual ways to the angles."""
    seq, size = x.shape[-2:]
    speed = torch.exp(torch.arange(0, size, 2).float() * (-math.log(10000.0) / size))
    angle = torch.arange(seq).float()[:, None] * speed
    return x + torch.stack([angle.sin(), angle.cos()], -1).flatten(-2).to(x.dtype)


def rows(init: dict, params: dict, x: Tensor) -> Tensor:
    return x + params["weight"][: x.shape[-2]]


def rows_looked_up(init: dict, params: dict, x: Tensor) -> Tensor:
    wide = torch.promote_types(x.dtype, torch.float32)
    return (torch.nn.functional.embedding(torch.arange(x.shape[-2]), params["weight"].to(wide)) + x.to(wide)).to(
        x.dtype
    )


def rows_by_product(init: dict, params: dict, x: Tensor) -> Tensor:
    return torch.eye(len(params["weight"]), dtype=x.dtype)[: x.shape[-2]] @ params["weight"] + x


class PositionsContract(ModuleContract):
    axes = {"x": "batch seq d_model", "result": "batch seq d_model"}
    time_limit = 12.0

    @classmethod
    def call(cls, d: Draw, *shape: int, size: int = 6, longest: int = 11) -> Call:
        return Call({"x": d.normal(*shape, size)}, {"max_len": longest, "d_model": size}, cls.params(d, longest, size))

    @classmethod
    def params(cls, d: Draw, longest: int, size: int) -> dict[str, Tensor]:
        """The parameters of the module, none here."""
        return {}

    def __init_subclass__(cls) -> None:
        def case(*shape: int, size: int = 6, longest: int = 11) -> Maker:
            return lambda d: cls.call(d, *shape, size=size, longest=longest)

        cls.cases = {
            "a_batch": case(2, 5),
            "as_long_as_allowed": case(2, 11),
            "as_many_tokens_as_entries": case(5, 5),
            "wider": case(2, 7, size=10, longest=7),
        }
        cls.more_shapes = {
            "no_leading_dimensions": case(5),
            "four_dimensions": case(2, 3, 5),
            "one_token": case(2, 1),
            "two_columns": case(2, 5, size=2),
            "far_positions": case(1, 5003, size=4, longest=5009),
            "one_position": case(2, 1, longest=1),
        }
        cls.growth = {
            "batch": lambda d, n: cls.call(d, n, 5),
            "seq": lambda d, n: cls.call(d, 2, n, longest=20),
            "width": lambda d, n: cls.call(d, 2, 5, size=2 * n),
        }

    @classmethod
    def delicate(cls, d: Draw) -> Call:
        return cls.call(d, 1, 307, longest=313)

    @classmethod
    def near_300(cls, d: Draw) -> Call:
        return cls.call(d, 2, 5).with_inputs(x=300 + d.normal(2, 5, 6))

    @classmethod
    def linear_in(cls, d: Draw, n: int) -> Call:
        return cls.call(d, 1, n, longest=n)

    @classmethod
    def timed(cls, d: Draw) -> Call:
        return cls.call(d, 16, 256, size=256, longest=256)

    @core
    def test_constructor_takes_its_arguments_in_this_order(self, attempt: Attempt, draw: Draw) -> None:
        made = type(self).call(draw, 2, 5)
        module = getattr(attempt, self.name)(*made.init.values())
        parameters_are(module, {name: tuple(value.shape) for name, value in made.params.items()})
        module.to(attempt.device).load_state_dict({k: v.to(attempt.device) for k, v in made.params.items()})
        with torch.no_grad():
            got = {"result": module(self.on_device(attempt, made).inputs["x"])}
        self.compare(attempt, draw, "all arguments by position", made, got, torch.float32, None)

    @robust
    def test_longer_sequences_than_allowed_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        for longest, seq in ((11, 12), (11, 17), (1, 3)):
            module = self.ready(attempt, type(self).call(draw, 2, 1, longest=longest))
            x = draw.normal(2, seq, 6).to(attempt.device)
            refuses(partial(module, x), seq, sentence="seq > max_len is a ValueError")


class TestSinusoidalPositions(TabledContract, PositionsContract):
    name = "SinusoidalPositions"
    oracle = waves
    variants = (waves_rounded_first, waves, waves_of_float32_angles)

    @robust
    def test_an_odd_width_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        for width in (7, 1):
            x = draw.normal(2, 5, width).to(attempt.device)
            sentence = "an odd d_model is a ValueError"
            refuses(lambda x=x, width=width: attempt.SinusoidalPositions(11, width)(x), width, sentence=sentence)


class TestLearnedPositions(PositionsContract):
    name = "LearnedPositions"
    oracle = rows
    variants = (rows, rows_looked_up, rows_by_product)

    @classmethod
    def params(cls, d: Draw, longest: int, size: int) -> dict[str, Tensor]:
        return {"weight": d.normal(longest, size)}

    @robust
    def test_weight_is_drawn_from_a_normal(self, attempt: Attempt) -> None:
        sentence = "weight is normal with standard deviation 0.02"
        drawn_from_normal(attempt.LearnedPositions, (400, 200), 0.02, math.inf, sentence)


BUGS = [
    Bug(
        "sines in the first half, cosines in the second",
        "sines stand in even columns and cosines in odd ones.",
        "table[:, 1::2] = angles.cos()",
        "table = torch.cat([angles.sin(), angles.cos()], dim=1)",
    ),
    Bug(
        "cosines in even columns",
        "sines stand in even columns and cosines in odd ones.",
        "table[:, 1::2] = angles.cos()",
        "table[:, 1::2] = angles.cos(); table = table.unflatten(1, (-1, 2)).flip(-1).flatten(1)",
    ),
    Bug(
        "exponent i / d instead of 2i / d",
        "the arange in steps of 2 already holds the 2i of the formula; pair i has the speed 10000^(-2i/d).",
        "speed = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)",
        "speed = 10000.0 ** (-torch.arange(d_model // 2, dtype=torch.float64) / d_model)",
    ),
    Bug(
        "the base 1000",
        "the base of the paper is 10000.",
        "speed = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)",
        "speed = 1000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)",
    ),
    Bug(
        "exponent without its minus",
        "later pairs are slower, not faster.",
        "speed = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)",
        "speed = 10000.0 ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)",
    ),
    Bug(
        "positions counted from 1",
        "the first token stands at position 0.",
        "position = torch.arange(max_len, dtype=torch.float64)",
        "position = torch.arange(1, max_len + 1, dtype=torch.float64)",
    ),
    Bug(
        "the table instead of the sum",
        "positions are added to x.",
        "return (wide + rows).to(x.dtype)",
        "return (0 * wide + rows).to(x.dtype)",
    ),
    Bug(
        "x scaled by the root of d_model",
        "that is part of the model of 2017, not of its positions.",
        "return (wide + rows).to(x.dtype)",
        "return (wide * x.shape[-1] ** 0.5 + rows).to(x.dtype)",
    ),
    Bug(
        "the input overwritten",
        "`x += ...` changes the caller's tensor.",
        "return (wide + rows).to(x.dtype)",
        "with torch.no_grad():\n            x += rows.to(x.dtype)\n        return x",
    ),
    Bug(
        "a table rounded when the module is cast",
        "a buffer is cast with the module, and bfloat16 keeps three digits of a sine.",
        "self.table = table.to(device)",
        'self.register_buffer("table", table.to(device), persistent=False)',
    ),
    Bug(
        "a table that is saved with the weights",
        "a table can be computed: it has no place in the state dict.",
        "self.table = table.to(device)",
        'self.table = table.to(device); self.register_buffer("positions", self.table)',
    ),
    Bug(
        "a sinusoidal table that is a parameter",
        "sines and cosines are not learned.",
        "self.table = table.to(device)",
        "self.table = table.to(device); self.weight = nn.Parameter(table.to(device, dtype), requires_grad=False)",
    ),
    Bug(
        "an odd width not refused",
        "sines and cosines come in pairs.",
        "if d_model % 2 != 0:",
        "if d_model < 0:",
    ),
    Bug(
        "longer sequences not refused by the sinusoids",
        "a shape that does not fit tells the caller nothing.",
        "if seq > len(self.table):",
        "if False:",
    ),
    Bug(
        "longer sequences not refused by the learned positions",
        "a shape that does not fit tells the caller nothing.",
        "if length > len(self.weight):",
        "if False:",
    ),
    Bug(
        "a table that is not a parameter",
        "learned positions are learned: a tensor kept as a plain attribute never is.",
        "self.weight = nn.Parameter(torch.empty(max_len, d_model, device=device, dtype=dtype))",
        "self.weight = torch.empty(max_len, d_model, device=device, dtype=dtype)",
    ),
    Bug(
        "standard deviation 1",
        "learned positions start small, with deviation 0.02.",
        "nn.init.normal_(self.weight, mean=0.0, std=0.02)",
        "nn.init.normal_(self.weight)",
    ),
    Bug(
        "learned positions start as zeros",
        "they start from a normal of deviation 0.02.",
        "nn.init.normal_(self.weight, mean=0.0, std=0.02)",
        "nn.init.zeros_(self.weight)",
    ),
    Bug(
        "the last rows instead of the first",
        "the first token stands at position 0.",
        "return x + self.weight[:length]",
        "return x + self.weight[-length:]",
    ),
    Bug(
        "the same row for every token",
        "each position has a row of its own.",
        "return x + self.weight[:length]",
        "return x + self.weight[length - 1]",
    ),
    Bug(
        "learned positions detached from the graph",
        "a table that gets no gradient never learns.",
        "return x + self.weight[:length]",
        "return x + self.weight[:length].detach()",
    ),
]

EQUIVALENT = (
    WIDER,
    Equivalent(r"float64.*→", "float32 angles of these tables are within float32 arithmetic."),
    Equivalent(r"wide = .*→.*(wide = x$|float16)", "the table is float64, so the sum is too."),
    Equivalent(r"\.to\(wide.*→.*", "the table stays float64, which is wider; the result is cast."),
    Equivalent(r"\.to\(device\).*→", "a table of the CPU follows the input at the first call."),
    Equivalent(r"mean=0\.0.*→", "0 is the default."),
)
