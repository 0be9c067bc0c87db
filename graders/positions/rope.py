"""What `RoPEReal` and `RoPEComplex` must do. The oracle turns one pair at a time by a rotation matrix, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from dojo.contracts import (
    HALF,
    Attempt,
    Call,
    Draw,
    Equivalent,
    Formula,
    KnownBugs,
    PrecomputedTablesContract,
    assert_raises,
    core,
    fail,
    fast,
    robust,
    tensor,
)
from dojo.contracts.oracles import apply_rope, apply_rope_by_float32_angles

MAKES_TABLES = {"cos", "cos_", "sin", "sin_", "polar", "exp", "exp_", "pow", "pow_", "tan", "acos", "atan2"}
COMPLEX_PRODUCTS = {
    *("mul", "mul_", "_foreach_mul", "_foreach_mul_", "addcmul", "addcmul_", "div", "prod"),
    *("bmm", "mm", "mv", "addmm", "addbmm", "baddbmm", "linalg_vecdot"),
}
SHOWS_COMPLEX = {"aten::complex", "aten::polar", "aten::view_as_complex", "aten::view_as_real"}
FAR = torch.tensor([4095, 0, 4094, 2049, 2731, 3333, 4001])


def lined_up(rotate: Callable[[Tensor, float, Tensor], Tensor]) -> Formula:
    """The formula with positions (batch, seq) given the axes in between that x has."""

    def formula(init: dict, params: dict, x: Tensor, positions: Tensor) -> Tensor:
        if positions.dim() == 2:
            positions = positions[(slice(None), *[None] * (x.dim() - 3))]
        return rotate(x, init.get("theta", 10000.0), positions)

    return formula


def by_matrices(x: Tensor, theta: float, positions: Tensor) -> Tensor:
    turned = []
    for i, pair in enumerate(x.unflatten(-1, (-1, 2)).unbind(-2)):
        angle = positions.double() * theta ** (-2 * i / x.shape[-1])
        rotation = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).unflatten(-1, (2, 2))
        turned.append((rotation.to(x.dtype) @ pair[..., None])[..., 0])
    return torch.cat(turned, -1)


class RoPEContract(PrecomputedTablesContract):
    oracle = staticmethod(lined_up(by_matrices))
    variants = tuple(map(lined_up, (apply_rope, apply_rope_by_float32_angles, by_matrices)))
    rounded_once = True
    axes = {"x": "batch heads seq dim", "positions": "batch seq", "result": "batch heads seq dim"}
    cases = {
        "from_the_start": {"leading": (), "pairs": 3, "positions": torch.arange(5)},
        "mid_sequence": {"leading": (3,), "positions": torch.arange(17, 22)},
        "positions_in_any_order": {"seq": 7},
        "a_position_twice": {"leading": (), "pairs": 3, "positions": torch.tensor([7, 3, 7, 0])},
        "positions_of_each_entry": {"leading": (3,), "own": True},
        "int32_positions": {"positions": torch.tensor([31, 4, 15, 9, 2], dtype=torch.int32)},
        "another_theta": {"theta": 500.0, "max_seq_len": 43},
        "another_theta_and_the_sizes_of_other_modules": {"theta": 500.0},
        "far_positions": {"pairs": 8, "positions": FAR, "max_seq_len": 4096},
    }
    hard_cases = {
        "positions_of_each_entry_with_heads": {"own": True},
        "own_positions_and_as_many_heads_as_entries": {"batch": 3, "own": True},
        "own_positions_and_as_many_heads_as_tokens": {"heads": 5, "own": True},
        "own_positions_of_one_entry": {"batch": 1, "own": True},
        "own_positions_and_five_axes": {"leading": (2, 3, 2), "own": True},
        "own_positions_and_one_token": {"seq": 1, "own": True},
    }
    representative = ("mid_sequence", "positions_of_each_entry", "far_positions")
    precision_sensitive = cases["far_positions"]
    more_shapes = {
        "one_token": {"seq": 1},
        "one_pair": {"pairs": 1},
        "one_position_in_the_table": {"seq": 1, "max_seq_len": 1},
        "five_axes": {"leading": (2, 3, 2)},
    }
    near_300 = {"offset": 300.0}
    grows = {"seq": "seq", "width": "pairs"}
    growth = {
        "batch": lambda d, n: RoPEContract.call(d, leading=(n,), own=True),
        "heads": lambda d, n: RoPEContract.call(d, heads=n, own=True),
    }
    memory_in = "seq"
    timed = {"leading": (12,), "seq": 1024, "max_seq_len": 1024, "own": True}
    time_limit = 10.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, heads: int = 3, seq: int = 5, pairs: int = 4, positions: Tensor | None = None,
        own: bool = False, max_seq_len: int = 0, offset: float = 0.0, leading: tuple | None = None, **more: float,
    ) -> Call:  # fmt: skip
        """A call on positions of all, or each entry's own, that are distinct and unsorted where none are given."""
        leading, max_seq_len = (batch, heads) if leading is None else leading, max_seq_len or 8 * seq
        if positions is None:
            positions = d.positions(max_seq_len, *leading[:own], seq)
        x = offset + d.normal(*leading, positions.shape[-1], 2 * pairs)
        return Call({"x": x, "positions": positions}, {"d_k": 2 * pairs, "max_seq_len": max_seq_len, **more})

    @robust
    def test_odd_width_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """A head of odd width fails far from its cause, in a reshape: Llama's own code does this too."""

        def use(d_k: int) -> None:
            getattr(attempt, self.name)(d_k, 16)(draw.normal(3, d_k), torch.arange(3))

        for d_k in (7, 1):
            assert_raises(partial(use, d_k), d_k, sentence="odd d_k is a ValueError")

    @robust
    def test_another_width_than_d_k_is_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Heads of width 2 broadcast against the table and come back wider; others fail far from the cause."""
        module, positions = getattr(attempt, self.name)(8, 16), torch.arange(3)
        for width in (6, 10, 1, 2, 16):
            sentence = f"a last dimension other than d_k (here {width} for 8) is a ValueError"
            assert_raises(partial(module, draw.normal(2, 3, width), positions), width, sentence=sentence)

    @robust
    def test_positions_outside_the_table_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """Padding's position of -1 reads the last row; one too far ends a run on a GPU: Llama's own code does both."""
        module, x = getattr(attempt, self.name)(8, 16), draw.normal(2, 3, 8)
        for outside in (17, 16, 123, -1, -16):
            positions = torch.tensor([[3, 15, 0], [3, outside, 5]])
            sentence = f"a position outside [0, max_seq_len) (here {outside} for 16) is a ValueError"
            for some in (positions[1], positions, positions.int()):
                assert_raises(partial(module, x, some), outside, sentence=sentence)

    @robust
    def test_each_call_reads_its_own_positions(self, attempt: Attempt, draw: Draw) -> None:
        """A decoder that refills one tensor of positions gets the rotation of the token before."""
        # The same numbers in another order, then others: neither shape nor ends nor sum tell the calls apart.
        first = type(self).call(draw)
        module, args, _ = self.prepare_call(attempt, first)
        staged, positions = module.stage(*args), first.inputs["positions"]
        for number, each in enumerate((positions, positions[[0, 2, 1, 3, 4]], draw.positions(40, 5)), 1):
            again = first.with_inputs(positions=each)
            staged.refill(*self.arguments(again.to(attempt.device))[0])
            told = f"call {number} of 3 of one module, other positions in the same tensor"
            self.compare(attempt, draw, told, again, {"result": staged.fetch(staged.go())})

    @robust
    def test_no_dtype_of_the_module_costs_precision(self, attempt: Attempt, draw: Draw) -> None:
        """A model cast to bfloat16 rotates by cosines of three digits: torchtune's buffers do this too."""
        made = type(self).call(draw)
        args, _ = self.arguments(made.to(attempt.device))
        for dtype in HALF:
            given = self.build(attempt, made, device=torch.device(attempt.device), dtype=dtype)
            cast = self.build(attempt, made).to(device=attempt.device, dtype=dtype)
            for told, module in ((f"built with dtype={dtype}", given), (f"after module.to({dtype})", cast)):
                with torch.no_grad(), self.case_context(attempt, told, made):
                    got = {"result": module(*args)}
                self.compare(attempt, draw, told, made, got)

    @robust
    def test_score_depends_only_on_distance(self, attempt: Attempt, draw: Draw) -> None:
        """Texts are read otherwise when they stand later in the context."""
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
        made = type(self).call(draw)
        args, _ = self.arguments(made.to(attempt.device))
        for told, dtype in (("a call", torch.float32), ("a call after module.to(bfloat16)", torch.bfloat16)):
            computed = sorted(MAKES_TABLES & set(self.ready(attempt, made, dtype).observe(*args)["operations"]))
            if computed:
                fail("tables are made once, at construction", f"{told} ran {', '.join(computed)}")


class TestRoPEReal(RoPEContract):
    name = "RoPEReal"

    @core
    def test_arithmetic_on_x_is_real(self, attempt: Attempt, draw: Draw) -> None:
        # x is larger than the tables: a complex tensor larger than they are was made of x. Looking up complex numbers
        # and reading their parts is no arithmetic, but is watched for in threads, which show no sizes.
        made = type(self).call(draw, batch=8, heads=9, max_seq_len=37)
        table = 37 * made.inputs["x"].shape[-1] // 2
        callee, args, kwargs = self.prepare_call(attempt, made)
        reading = callee.observe(*args, **kwargs)
        elsewhere = SHOWS_COMPLEX & set(reading["profiled"]) - {f"aten::{name}" for name in reading["operations"]}
        large = {f"aten::{name}" for name, size in reading["complex"].items() if size > table} - {"aten::expand"}
        if used := ", ".join(sorted(elsewhere | large)):
            fail("the arithmetic of RoPEReal on x is real", f"more complex numbers than the tables hold came of {used}")


class TestRoPEComplex(RoPEContract):
    name = "RoPEComplex"

    @core
    def test_multiplies_complex_tensors(self, attempt: Attempt, draw: Draw) -> None:
        made = type(self).call(draw)
        callee, args, kwargs = self.prepare_call(attempt, made)
        found = callee.observe(*args, **kwargs)["complex"]
        largest = max((size for name, size in found.items() if name in COMPLEX_PRODUCTS), default=0)
        pairs = made.inputs["x"].numel() // 2
        if largest < pairs:
            seen = f"complex results of {', '.join(sorted(found)) or 'nothing'}"
            fail(
                "RoPEComplex multiplies complex tensors", f"{seen}; the largest product has {largest} of {pairs} pairs"
            )


CLAIMS = {  # words of the statement, and the checks that hold them
    "RoPEReal": "is_real",
    "RoPEComplex": "multiplies_complex",
    "lose no precision": "costs_precision",
}

BUGS = KnownBugs(
    """
pairs (i, i + d_k/2) instead of (2i, 2i + 1)
    that is the half-split layout of GPT-NeoX and Hugging Face; here neighbours are turned.
    slice(0, d_k, 2), slice(1, d_k, 2)  →  slice(0, d_k // 2), slice(d_k // 2, d_k)
rotates backwards
    the angle grows with the position; the other sign is the inverse map.
    torch.outer(position, frequency)  →  torch.outer(-position, frequency)
theta ignored
    the base is an argument; long-context models raise it.
    frequency = theta **  →  frequency = 10000.0 **
exponent i/d_k instead of 2i/d_k
    pair i turns by theta^(-2i/d_k), so that the slowest pair comes close to 1/theta.
    torch.arange(0, d_k, 2,  →  torch.arange(0, d_k // 2,
exponent 4i/d_k instead of 2i/d_k
    the even indices are 2i already: dividing by d_k/2 doubles them again.
    dtype=torch.float64) / d_k)  →  dtype=torch.float64) / (d_k // 2))
exponent without its minus
    pair i turns by theta^(-2i/d_k): later pairs are slower, not faster.
    theta ** (-torch.arange  →  theta ** (torch.arange
tables shared by the class, whatever theta
    what is kept for all modules must be told apart by everything that it was made of.
    max_seq_len: int, theta: float)  →  max_seq_len: int, theta: float, made={})
    return torch.outer(position, frequency)
    →  return made.setdefault((d_k, max_seq_len), torch.outer(position, frequency))
every pair turns at the same speed
    pair i has a frequency of its own; with one speed for all, far positions look alike.
    theta ** (-torch.arange(0, d_k, 2, dtype=torch.float64) / d_k)  →  torch.ones(d_k // 2, dtype=torch.float64)
frequencies in reverse order
    the first pair is the fastest.
    torch.outer(position, frequency)  →  torch.outer(position, frequency.flip(0))
positions counted from 1
    position 0 is not turned at all.
    torch.arange(max_seq_len,  →  torch.arange(1, max_seq_len + 1,
positions in float16
    float16 holds whole numbers up to 2,048 and bfloat16 up to 256: beyond, neighbours turn alike.
    torch.arange(max_seq_len, dtype=torch.float64)  →  torch.arange(max_seq_len).half().double()
positions ignored: always 0, 1, 2, …
    with a cache, or a packed batch, tokens stand anywhere.
    return positions.long()  →  return torch.arange(x.shape[-2], device=x.device)
the first entry's positions for the whole batch
    positions (batch, seq) give each entry positions of its own.
    positions = positions.reshape(batch, *[1] * (x.ndim - 3), seq)  →  positions = positions[0]
    batch, seq = positions.shape  →
a reflection instead of a rotation
    the matrix is [[cos, -sin], [sin, cos]]; with the second sine negated too its determinant is not 1.
    wide[..., first] * sin + wide[..., second] * cos  →  wide[..., second] * cos - wide[..., first] * sin
angles concatenated where neighbours turn
    `cat([angles, angles])` serves the half-split layout; neighbours share an angle: `repeat_interleave(2)`.
    out[..., first] = wide[..., first] * cos - wide[..., second] * sin
    →  cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
        out[..., first] = wide[..., first] * cos[..., first] - wide[..., second] * sin[..., first]
    out[..., second] = wide[..., first] * sin + wide[..., second] * cos
    →  out[..., second] = wide[..., first] * sin[..., second] + wide[..., second] * cos[..., second]
members concatenated instead of put back in their places
    the rotated members belong where they came from, at 2i and 2i + 1; `cat` gives the half-split layout.
    out[..., second] = wide[..., first] * sin + wide[..., second] * cos
    →  out = torch.cat([out[..., first], wide[..., first] * sin + wide[..., second] * cos], -1)
overwrites the first member before the second is computed
    both members of the result need both members of the input, and the input is not ours to change.
    out[..., first] = wide[..., first] * cos  →  out = wide
        out[..., first] = wide[..., first] * cos
detached from the graph
    the values are right, but no gradient flows back to x and nothing before it is trained.
    wide[..., first] * sin + wide[..., second] * cos  →  wide[..., first] * sin + wide[..., second] * cos
        out = out.detach()
the result left in float32
    the result has the dtype of x.
    wide[..., first] * sin + wide[..., second] * cos  →  wide[..., first] * sin + wide[..., second] * cos
        return out
the last position of the table refused
    max_seq_len - 1 is a position; the first one outside is max_seq_len.
    (positions >= max_seq_len)  →  (positions >= max_seq_len - 1)
position max_seq_len let through
    the table holds the positions 0 to max_seq_len - 1.
    (positions >= max_seq_len)  →  (positions > max_seq_len)
negative positions wrap around
    an index of -1 silently reads the last row of the table.
    (positions < 0) | (positions >= max_seq_len)  →  positions >= max_seq_len
positions behind the table are not refused
    what an index finds outside the table, an IndexError or a wrong row, does not tell the caller what is wrong.
    (positions < 0) | (positions >= max_seq_len)  →  positions < 0
odd d_k is not refused
    the last feature would have no partner.
    % 2 != 0:  →  < 2:
another width than d_k is not refused
    a wrong width should be told by name, not fail somewhere in a product.
    if x.shape[-1] != d_k:  →  if x.shape[-1] == 0:
tables saved in the state dict
    a persistent buffer shows in the state dict, which then fits no other implementation.
    self.cos = angles.cos().to(device)  →  self.register_buffer("cos", angles.cos().to(device))
    self.sin = angles.sin().to(device)  →  self.register_buffer("sin", angles.sin().to(device))
module.to(bfloat16), or module.half(), rounded your buffers
    a cast of the module casts its buffers, persistent or not: the tables keep three or four digits.
    self.cos = angles.cos().to(device)  →  self.register_buffer("cos", angles.cos().to(device), persistent=False)
    self.sin = angles.sin().to(device)  →  self.register_buffer("sin", angles.sin().to(device), persistent=False)
module.to(dtype) made your complex buffer real
    a cast of the module to a real dtype drops the imaginary part of its buffers: the sines are gone.
    self.turns = torch.polar(torch.ones_like(angles), angles).to(device)
    →  self.register_buffer("turns", torch.polar(torch.ones_like(angles), angles).to(device), persistent=False)
angles in half precision
    position and frequency are rounded before their product: positions that are far on turn by another angle.
    self.cos = angles.cos().to(device)  →  self.frequency = theta ** (-torch.arange(0, d_k, 2, device=device) / d_k)
    self.sin = angles.sin().to(device)  →  self.dtype = dtype
    self.cos, self.sin = self.cos.to(x.device), self.sin.to(x.device)
    →  angles = positions[..., None].to(x.dtype) * self.frequency.to(x.device, x.dtype)
    cos = self.cos[positions].to(wide.dtype)  →  wide = x
        cos = angles.cos()
    sin = self.sin[positions].to(wide.dtype)  →  sin = angles.sin()
rotated in half precision
    products and their difference are rounded each, so a component that nearly cancels is lost.
    cos = self.cos[positions].to(wide.dtype)  →  wide = x
        cos = self.cos[positions].to(wide.dtype)
complex multiplication in RoPEReal
    the point of the real form is arithmetic in real numbers: complex ones lack kernels on many devices.
    out[..., second] = wide[..., first] * sin + wide[..., second] * cos
    →  out[..., second] = (torch.complex(wide[..., first], wide[..., second]) * torch.complex(cos, sin)).imag
"""
)

EQUIVALENT = (
    Equivalent(r"wide = .*float32.*→.*float64", "float64 is wider than the float32 that is asked for."),
    Equivalent(r"wide = .*→.*(wide = x$|float16)", "the tables are float64, so the products are too."),
    Equivalent(r"(cos|sin|turns).*\.to\(wide.*→.*", "the tables stay float64, which is wider; the result is cast."),
    Equivalent(r"\.to\(device\).*→", "tables of the CPU follow the input at the first call."),
    Equivalent(r"position = .*float64.*→", "positions are small integers, exact in every dtype."),
    Equivalent(r"arange\(0, \w+, 2, dtype=torch.float64.*→", "float32 exponents are within float32 arithmetic."),
    Equivalent(r"positions\.long\(\).*→", "int32 indexes too."),
    Equivalent(r"positions = torch.arange.*device.*→", "indices of the CPU may index on any device."),
    Equivalent(r"outside\[0\].*→", "another offending position, or the same as a tensor, is named."),
)
