"""What `RoPEReal` and `RoPEComplex` must do. The oracle turns one pair at a time by a rotation matrix, in float64."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from dojo import attending, rule
from dojo.bugs import Bug, Equivalent
from dojo.contract import TabledContract, core, fast, robust
from dojo.expect import Call, Draw, build, fail, refuses, tensor
from dojo.judge.proxy import Attempt

MAKES_TABLES = {"cos", "cos_", "sin", "sin_", "polar", "exp", "exp_", "pow", "pow_", "tan", "acos", "atan2"}
COMPLEX_PRODUCTS = {
    *("mul", "mul_", "_foreach_mul", "_foreach_mul_", "addcmul", "addcmul_", "div", "prod"),
    *("bmm", "mm", "mv", "addmm", "addbmm", "baddbmm", "linalg_vecdot"),
}
SHOWS_COMPLEX = {"aten::complex", "aten::polar", "aten::view_as_complex", "aten::view_as_real"}


def by_matrices(init: dict, params: dict, x: Tensor, positions: Tensor) -> Tensor:
    d_k, theta = init["d_k"], init.get("theta", 10000.0)
    out = torch.empty_like(x)
    for pair in range(d_k // 2):
        angle = lined_up(positions, x).to(torch.float64) * theta ** (-2 * pair / d_k)
        rotation = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).unflatten(-1, (2, 2))
        members = x[..., 2 * pair : 2 * pair + 2]
        out[..., 2 * pair : 2 * pair + 2] = (rotation.to(x.dtype) @ members[..., None])[..., 0]
    return out


def lined_up(positions: Tensor, x: Tensor) -> Tensor:
    """Positions with as many axes as x has before its last one."""
    if positions.dim() == 1:
        return positions
    return positions[(slice(None), *[None] * (x.dim() - 3), slice(None))]


def turned(x: Tensor, angle: Tensor) -> Tensor:
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([first * cos - second * sin, first * sin + second * cos], -1).flatten(-2)


def angles_in_float32(init: dict, params: dict, x: Tensor, positions: Tensor) -> Tensor:
    d_k, theta = init["d_k"], init.get("theta", 10000.0)
    frequency = 1 / theta ** (torch.arange(0, d_k, 2, dtype=torch.float32) / d_k)
    return turned(x, lined_up(positions, x)[..., None].float() * frequency)


def frequencies_by_exp(init: dict, params: dict, x: Tensor, positions: Tensor) -> Tensor:
    d_k, theta = init["d_k"], init.get("theta", 10000.0)
    frequency = torch.exp(torch.arange(0, d_k, 2, dtype=torch.float32) * (-math.log(theta) / d_k))
    return turned(x, lined_up(positions, x)[..., None].float() * frequency)


def angles_in_float64(init: dict, params: dict, x: Tensor, positions: Tensor) -> Tensor:
    d_k, theta = init["d_k"], init.get("theta", 10000.0)
    frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)
    return turned(x, lined_up(positions, x)[..., None].double() * frequency)


def call(d: Draw, *shape: int, positions: Tensor | None = None, max_seq_len: int = 40, **more: float) -> Call:
    """A call on normal inputs; positions are drawn, distinct and unsorted, where none are given."""
    positions = d.positions(max_seq_len, shape[-2]) if positions is None else positions
    return Call({"x": d.normal(*shape), "positions": positions}, {"d_k": shape[-1], "max_seq_len": max_seq_len, **more})


def far(d: Draw) -> Call:
    ends = torch.tensor([4095, 0, 4094])
    return call(d, 2, 7, 16, positions=torch.cat([ends, d.integers(2000, 4096, 4)]), max_seq_len=4096)


class RoPEContract(TabledContract):
    positional = 2
    oracle = by_matrices
    variants = (angles_in_float32, frequencies_by_exp, angles_in_float64)
    rounded_once = True
    axes = {"x": "batch heads seq dim", "positions": "batch seq", "result": "batch heads seq dim"}
    cases = {
        "from_the_start": lambda d: call(d, 5, 6, positions=torch.arange(5)),
        "mid_sequence": lambda d: call(d, 3, 5, 8, positions=torch.arange(17, 22)),
        "positions_in_any_order": lambda d: call(d, 2, 3, 7, 8),
        "a_position_twice": lambda d: call(d, 4, 6, positions=torch.tensor([7, 3, 7, 0])),
        "positions_of_each_entry": lambda d: call(d, 2, 3, 5, 8, positions=d.positions(40, 2, 5)),
        "positions_of_each_entry_without_heads": lambda d: call(d, 3, 5, 8, positions=d.positions(40, 3, 5)),
        "int32_positions": lambda d: call(d, 3, 5, 4, positions=d.integers(0, 40, 5, dtype=torch.int32)),
        "another_theta": lambda d: call(d, 3, 5, 8, theta=500.0),
        "far_positions": far,
    }
    delicate = staticmethod(far)
    telling = ("mid_sequence", "positions_of_each_entry", "far_positions")
    more_shapes = {
        "one_token": lambda d: call(d, 2, 3, 1, 8),
        "one_pair": lambda d: call(d, 3, 5, 2),
        "one_position_in_the_table": lambda d: call(d, 3, 1, 4, positions=torch.tensor([0]), max_seq_len=1),
        "five_axes": lambda d: call(d, 2, 3, 2, 5, 4, positions=d.positions(40, 2, 5)),
        "heads_as_many_as_tokens": lambda d: call(d, 2, 5, 5, 4, positions=d.positions(40, 2, 5)),
        "batch_as_large_as_heads": lambda d: call(d, 3, 3, 5, 4, positions=d.positions(40, 3, 5)),
        "one_entry_with_its_own_positions": lambda d: call(d, 1, 3, 5, 4, positions=d.positions(40, 1, 5)),
    }
    growth = {
        "batch": lambda d, n: call(d, n, 3, 5, 4, positions=d.positions(40, n, 5)),
        "heads": lambda d, n: call(d, 2, n, 5, 4, positions=d.positions(40, 2, 5)),
        "seq": lambda d, n: call(d, 2, 3, n, 4, positions=d.positions(40, 2, n)),
        "width": lambda d, n: call(d, 2, 3, 5, 2 * n),
    }
    time_limit = 10.0

    @staticmethod
    def near_300(d: Draw) -> Call:
        shaped = call(d, 3, 5, 8)
        return shaped.with_inputs(x=300 + d.normal(3, 5, 8))

    @staticmethod
    def linear_in(d: Draw, n: int) -> Call:
        return call(d, 2, n, 8, max_seq_len=600)

    @staticmethod
    def timed(d: Draw) -> Call:
        return call(d, 12, 1024, 8, positions=d.positions(1024, 12, 1024), max_seq_len=1024)

    @robust
    def test_odd_width_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        def use(d_k: int) -> None:
            getattr(attempt, self.name)(d_k, 16)(draw.normal(3, d_k), torch.arange(3))

        for d_k in (7, 1):
            refuses(partial(use, d_k), d_k, sentence="odd d_k is a ValueError")

    @robust
    def test_another_width_than_d_k_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        module, positions = getattr(attempt, self.name)(8, 16), torch.arange(3)
        for width in (6, 10, 1, 2, 16):
            sentence = f"a last dimension other than d_k (here {width} for 8) is a ValueError"
            refuses(partial(module, draw.normal(2, 3, width), positions), width, sentence=sentence)

    @robust
    def test_positions_outside_the_table_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        module = getattr(attempt, self.name)(8, 16)
        x = draw.normal(2, 3, 8)
        for outside in (17, 16, 123, -1, -16):
            positions = torch.tensor([[3, 15, 0], [3, outside, 5]])
            sentence = f"a position outside [0, max_seq_len) (here {outside} for 16) is a ValueError"
            for some in (positions[1], positions, positions.int()):
                refuses(partial(module, x, some), outside, sentence=sentence)

    @robust
    def test_each_call_reads_its_own_positions(self, attempt: Attempt, draw: Draw) -> None:
        first = call(draw, 3, 5, 8)
        prepared = self.ready(attempt, first).prepare(*self.arguments(self.on_device(attempt, first))[0])
        positions = first.inputs["positions"]
        # The same numbers in another order, then others: neither shape nor ends nor sum tell the calls apart.
        for number, each in enumerate((positions, positions[[0, 2, 1, 3, 4]], draw.positions(40, 5)), 1):
            again = first.with_inputs(positions=each)
            prepared.refill(*self.arguments(self.on_device(attempt, again))[0])
            got = {"result": prepared.fetch(prepared.go())}
            told = f"call {number} of 3 of one module, other positions in the same tensor"
            self.compare(attempt, draw, told, again, got, torch.float32, None)

    @robust
    def test_no_dtype_of_the_module_costs_precision(self, attempt: Attempt, draw: Draw) -> None:
        each = call(draw, 3, 5, 8, positions=torch.arange(17, 22))
        args, _ = self.arguments(self.on_device(attempt, each))
        for dtype in rule.HALF:
            given = build(attempt, self.name, each, device=torch.device(attempt.device), dtype=dtype)
            cast = build(attempt, self.name, each).to(device=attempt.device, dtype=dtype)
            for told, module in ((f"built with dtype={dtype}", given), (f"after module.to({dtype})", cast)):
                with torch.no_grad(), self.told(attempt, told, each):
                    got = {"result": module(*args)}
                self.compare(attempt, draw, told, each, got, torch.float32, None)

    @robust
    def test_score_depends_only_on_distance(self, attempt: Attempt, draw: Draw) -> None:
        module, q, k = getattr(attempt, self.name)(8, 64), draw.normal(1, 8), draw.normal(1, 8)

        def score(at_q: int, at_k: int) -> float:
            turned_q, turned_k = (tensor(module(v, torch.tensor([p]))) for v, p in ((q, at_q), (k, at_k)))
            return float((turned_q.flatten() * turned_k.flatten()).sum())

        near, later = score(5, 2), score(45, 42)
        if not abs(near - later) <= 1e-3 * float(q.norm() * k.norm()):
            seen = f"{near:.5f} at positions 5 and 2, {later:.5f} at 45 and 42"
            fail("q · k depends only on the distance of their positions", seen)

    @fast
    def test_tables_are_made_once_at_construction(self, attempt: Attempt, draw: Draw) -> None:
        each = call(draw, 3, 5, 8)
        args, _ = self.arguments(self.on_device(attempt, each))
        for told, dtype in (("a call", torch.float32), ("a call after module.to(bfloat16)", torch.bfloat16)):
            made = sorted(MAKES_TABLES & set(self.ready(attempt, each, dtype).observe(*args)["operations"]))
            if made:
                fail("tables are made once, at construction", f"{told} ran {', '.join(made)}")


class TestRoPEReal(RoPEContract):
    name = "RoPEReal"

    @core
    def test_uses_no_complex_tensor(self, attempt: Attempt, draw: Draw) -> None:
        # Sizes that no other check uses: nothing can have been made before.
        made = call(draw, 3, 5, 10, max_seq_len=37)
        laid = {"construction": (attempt.RoPEReal, (), made.init), "a call": self.at_hand(attempt, made)}
        for where, (callee, args, kwargs) in laid.items():
            reading = callee.observe(*args, **kwargs)
            used = {f"aten::{name}" for name in reading["complex"]} | SHOWS_COMPLEX & set(reading["profiled"])
            if used:
                fail("RoPEReal uses no complex tensor", f"in {where}: {', '.join(sorted(used))}")


class TestRoPEComplex(RoPEContract):
    name = "RoPEComplex"

    @core
    def test_multiplies_complex_tensors(self, attempt: Attempt, draw: Draw) -> None:
        callee, args, kwargs = self.at_hand(attempt, call(draw, 3, 5, 8))
        made = callee.observe(*args, **kwargs)["complex"]
        largest = max((size for name, size in made.items() if name in COMPLEX_PRODUCTS), default=0)
        if largest < 3 * 5 * 8 // 2:
            seen = f"complex results of {', '.join(sorted(made)) or 'nothing'}"
            fail("RoPEComplex multiplies complex tensors", f"{seen}; the largest product has {largest} entries of 60")


BUGS = [
    Bug(
        "pairs (i, i + d_k/2) instead of (2i, 2i + 1)",
        "that is the half-split layout of GPT-NeoX and Hugging Face; here neighbours are turned.",
        "return slice(0, d_k, 2), slice(1, d_k, 2)",
        "return slice(0, d_k // 2), slice(d_k // 2, d_k)",
    ),
    Bug(
        "rotates backwards",
        "the angle grows with the position; the other sign is the inverse map.",
        "return torch.outer(position, frequency)",
        "return torch.outer(-position, frequency)",
    ),
    Bug(
        "theta ignored",
        "the base is an argument; long-context models raise it.",
        "frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)",
        "frequency = 10000.0 ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)",
    ),
    Bug(
        "exponent i/d_k instead of 2i/d_k",
        "pair i turns by theta^(-2i/d_k), so that the slowest pair comes close to 1/theta.",
        "frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)",
        "frequency = theta ** (-torch.arange(0, d_k // 2, dtype=torch.float64) / d_k)",
    ),
    Bug(
        "exponent 4i/d_k instead of 2i/d_k",
        "the even indices are 2i already: dividing by d_k/2 doubles them again.",
        "frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)",
        "frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / (d_k // 2))",
    ),
    Bug(
        "exponent without its minus",
        "pair i turns by theta^(-2i/d_k): later pairs are slower, not faster.",
        "frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)",
        "frequency = theta ** (torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)",
    ),
    Bug(
        "every pair turns at the same speed",
        "pair i has a frequency of its own; with one speed for all, far positions look alike.",
        "frequency = theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)",
        "frequency = theta ** (-torch.zeros(d_k // 2, dtype=torch.float64))",
    ),
    Bug(
        "frequencies in reverse order",
        "the first pair is the fastest.",
        "return torch.outer(position, frequency)",
        "return torch.outer(position, frequency.flip(0))",
    ),
    Bug(
        "positions counted from 1",
        "position 0 is not turned at all.",
        "position = torch.arange(max_seq_len, dtype=torch.float64)",
        "position = torch.arange(1, max_seq_len + 1, dtype=torch.float64)",
    ),
    Bug(
        "positions ignored: always 0, 1, 2, …",
        "with a cache, or a packed batch, tokens stand anywhere.",
        "return positions.long()",
        "return torch.arange(x.shape[-2], device=x.device)",
    ),
    Bug(
        "the first entry's positions for the whole batch",
        "positions (batch, seq) give each entry positions of its own.",
        "positions = positions.reshape(batch, *[1] * (x.ndim - 3), seq)",
        "positions = positions[0]",
    ),
    Bug(
        "a reflection instead of a rotation",
        "the matrix is [[cos, -sin], [sin, cos]]; with the second sine negated too its determinant is not 1.",
        "out[..., second] = wide[..., first] * sin + wide[..., second] * cos",
        "out[..., second] = wide[..., second] * cos - wide[..., first] * sin",
    ),
    Bug(
        "members concatenated instead of put back in their places",
        "the rotated members belong where they came from, at 2i and 2i + 1; `cat` gives the half-split layout.",
        "out[..., second] = wide[..., first] * sin + wide[..., second] * cos",
        "out = torch.cat([out[..., first], wide[..., first] * sin + wide[..., second] * cos], -1)",
    ),
    Bug(
        "overwrites the first member before the second is computed",
        "both members of the result need both members of the input, and the input is not ours to change.",
        "out[..., first] = wide[..., first] * cos - wide[..., second] * sin",
        "out = wide; out[..., first] = wide[..., first] * cos - wide[..., second] * sin",
    ),
    Bug(
        "detached from the graph",
        "the values are right, but no gradient flows back to x and nothing before it is trained.",
        "out[..., second] = wide[..., first] * sin + wide[..., second] * cos",
        "out[..., second] = wide[..., first] * sin + wide[..., second] * cos; out = out.detach()",
    ),
    Bug(
        "the result left in float32",
        "the result has the dtype of x.",
        "out[..., second] = wide[..., first] * sin + wide[..., second] * cos",
        "out[..., second] = wide[..., first] * sin + wide[..., second] * cos; return out",
    ),
    Bug(
        "the last position of the table refused",
        "max_seq_len - 1 is a position; the first one outside is max_seq_len.",
        "outside = positions[(positions < 0) | (positions >= max_seq_len)]",
        "outside = positions[(positions < 0) | (positions >= max_seq_len - 1)]",
    ),
    Bug(
        "position max_seq_len let through",
        "the table holds the positions 0 to max_seq_len - 1.",
        "outside = positions[(positions < 0) | (positions >= max_seq_len)]",
        "outside = positions[(positions < 0) | (positions > max_seq_len)]",
    ),
    Bug(
        "negative positions wrap around",
        "an index of -1 silently reads the last row of the table.",
        "outside = positions[(positions < 0) | (positions >= max_seq_len)]",
        "outside = positions[positions >= max_seq_len]",
    ),
    Bug(
        "positions behind the table are not refused",
        "what an index finds outside the table, an IndexError or a wrong row, does not tell the caller what is wrong.",
        "outside = positions[(positions < 0) | (positions >= max_seq_len)]",
        "outside = positions[positions < 0]",
    ),
    Bug(
        "odd d_k is not refused",
        "the last feature would have no partner.",
        "if d_k % 2 != 0:",
        "if d_k < 2:",
    ),
    Bug(
        "another width than d_k is not refused",
        "a wrong width should be told by name, not fail somewhere in a product.",
        "if x.shape[-1] != d_k:",
        "if x.shape[-1] == 0:",
    ),
    Bug(
        "tables persistent",
        "a persistent buffer shows in the state dict, which then fits no other implementation.",
        "self.cos = angles.cos().to(device)",
        'self.register_buffer("cos", angles.cos().to(device))',
    ),
    Bug(
        "tables cast with the module",
        "a buffer is rounded by module.to(bfloat16), and at far positions the angle is lost.",
        "self.sin = angles.sin().to(device)",
        'self.register_buffer("sin", angles.sin().to(device), persistent=False)',
    ),
    Bug(
        "rotated in half precision",
        "products and their difference are rounded each, so a component that nearly cancels is lost.",
        "out[..., first] = wide[..., first] * cos - wide[..., second] * sin",
        "out[..., first] = (x[..., first] * cos.to(x) - x[..., second] * sin.to(x)).to(wide)",
    ),
    Bug(
        "complex numbers in RoPEReal",
        "the point of the real form is to need none: complex tensors lack kernels on many devices.",
        "sin = self.sin[positions]",
        "sin = torch.complex(self.cos, self.sin)[positions].imag",
    ),
]

EQUIVALENT = (
    *attending.ROTATING_EQUIVALENT,
    Equivalent(r"outside\[0\].*→", "another offending position, or the same as a tensor, is named."),
)
