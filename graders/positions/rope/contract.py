"""What `RoPEReal` and `RoPEComplex` must do. The oracle rotates one pair at a time by a matrix, in float64."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dojo.contracts import Attempt, Call, Draw, Formula, PrecomputedTablesContract, core, fail, robust
from dojo.contracts.oracles import apply_rope_by_float32_angles

COMPLEX_PRODUCTS = {
    *("mul", "mul_", "_foreach_mul", "_foreach_mul_", "addcmul", "addcmul_", "div", "prod"),
    *("bmm", "mm", "mv", "addmm", "addbmm", "baddbmm", "linalg_vecdot"),
}
FAR = torch.tensor([4095, 0, 4094, 2049, 2731, 3333, 4001])


def lined_up(rotate: Callable[[Tensor, float, Tensor], Tensor]) -> Formula:
    """The formula with positions (batch, seq) given the axes in between that x has."""

    def formula(init: dict, x: Tensor, positions: Tensor) -> Tensor:
        if positions.dim() == 2:
            positions = positions[(slice(None), *[None] * (x.dim() - 3))]
        return rotate(x, init["theta"], positions)

    return formula


def by_matrices(x: Tensor, theta: float, positions: Tensor) -> Tensor:
    rotated = []
    for i, pair in enumerate(x.unflatten(-1, (-1, 2)).unbind(-2)):
        angle = positions.double() * theta ** (-2 * i / x.shape[-1])
        rotation = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()], -1).unflatten(-1, (2, 2))
        rotated.append((rotation.to(x.dtype) @ pair[..., None])[..., 0])
    return torch.cat(rotated, -1)


def in_the_dtype_of_x(x: Tensor, theta: float, positions: Tensor) -> Tensor:
    """As Hugging Face rotates: cosines, sines, products and sums are rounded each."""
    angle = positions.float()[..., None] * theta ** (-torch.arange(0, x.shape[-1], 2).float() / x.shape[-1])
    cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
    first, second = x[..., 0::2], x[..., 1::2]
    return torch.stack([first * cos - second * sin, first * sin + second * cos], -1).flatten(-2)


class RoPEContract(PrecomputedTablesContract):
    oracle = staticmethod(lined_up(by_matrices))
    variants = tuple(map(lined_up, (in_the_dtype_of_x, apply_rope_by_float32_angles, by_matrices)))
    axes = {"x": "batch heads seq dim", "positions": "batch seq", "result": "batch heads seq dim"}
    cases = {
        "from_the_start": {"leading": (), "pairs": 3, "positions": torch.arange(5)},
        "mid_sequence": {"leading": (3,), "positions": torch.arange(17, 22)},
        "positions_in_any_order": {"seq": 7},
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
        "own_positions_and_five_axes": {"leading": (2, 3, 2), "own": True},
    }
    representative = ("mid_sequence", "positions_of_each_entry", "far_positions")
    holds = {
        "Pairs": ("test_values_match",),
        "Positions": ("test_hard_cases", "test_each_call_reads"),
        "Half precision": ("test_half_precision",),
    }
    more_shapes = {
        "one_token": {"seq": 1},
        "one_pair": {"pairs": 1},
        "one_position_in_the_table": {"seq": 1, "max_seq_len": 1},
        "five_axes": {"leading": (2, 3, 2)},
    }
    grows = {"seq": "seq", "width": "pairs"}
    growth = {
        "batch": lambda d, n: RoPEContract.call(d, leading=(n,), own=True),
        "heads": lambda d, n: RoPEContract.call(d, heads=n),
    }
    memory_in = "seq"
    timed = {"leading": (12,), "seq": 1024, "max_seq_len": 1024, "own": True}
    time_limit = 10.0

    @classmethod
    def call(
        cls, d: Draw, batch: int = 2, heads: int = 3, seq: int = 5, pairs: int = 4, positions: Tensor | None = None,
        own: bool = False, max_seq_len: int = 0, leading: tuple | None = None, **more: float,
    ) -> Call:  # fmt: skip
        """A call on positions of all, or each entry's own, that are distinct and unsorted where none are given."""
        leading, max_seq_len = (batch, heads) if leading is None else leading, max_seq_len or 8 * seq
        if positions is None:
            positions = d.positions(max_seq_len, *leading[:own], seq)
        x = d.normal(*leading, positions.shape[-1], 2 * pairs)
        return Call({"x": x, "positions": positions}, {"d_k": 2 * pairs, "max_seq_len": max_seq_len, **more})

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


class TestRoPEReal(RoPEContract):
    name = "RoPEReal"
    holds = RoPEContract.holds | {"Two forms": ("test_arithmetic_on_x",)}

    @core
    def test_arithmetic_on_x_is_real(self, attempt: Attempt, draw: Draw) -> None:
        # x is larger than the tables: a complex tensor larger than they are was made of x.
        made = type(self).call(draw, batch=8, heads=9, max_seq_len=37)
        table = 37 * made.inputs["x"].shape[-1] // 2
        callee, args, kwargs = self.prepare_call(attempt, made)
        complex_results = callee.observe(*args, **kwargs)["complex"]
        if used := ", ".join(sorted(name for name, size in complex_results.items() if size > table)):
            fail("the arithmetic of RoPEReal on x is real", f"more complex numbers than the tables hold came of {used}")


class TestRoPEComplex(RoPEContract):
    name = "RoPEComplex"
    holds = RoPEContract.holds | {"Two forms": ("test_multiplies_complex",)}

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
