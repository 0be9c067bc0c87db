"""What the five functions must do. The oracles divide, round and add up in Python, group by group."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Attempt, Ban, Call, Contract, Draw, RoundedOnceContract, fail, match, robust, tensor

INTEGERS = {"test_float64_is_at_least_as_accurate_as_float32": "integers have no other dtype"}
LIBRARY = Ban(r"quantize|qparams|int4pack|int8pack|_dyn_quant")
Pair = tuple[Tensor, Tensor]


def clear(x: Tensor, bits: int = 8, group_size: int | None = None) -> Tensor:
    """`x`, exact in every dtype, its quotients at most 0.4 from an integer: no way of dividing changes a code."""
    x = x.bfloat16().double()
    groups = x.unflatten(-1, (-1, group_size or x.shape[-1]))
    scales = groups.abs().amax(-1, keepdim=True) / (2 ** (bits - 1) - 1)
    whole = (groups / scales).round()
    near = (groups / scales - whole).abs() < 0.4
    return torch.where(near, groups, (whole * scales).bfloat16()).flatten(-2).float()


def by_hand(x: Tensor, bits: int, group_size: int | None) -> Pair:
    n, largest = x.shape[-1], 2 ** (bits - 1) - 1
    size, codes, scales = group_size or n, [], []
    for row in x.reshape(-1, n).tolist():
        for start in range(0, n, size):
            group = row[start : start + size]
            peak = max(map(abs, group))
            scales.append(peak / largest if peak else 1.0)
            codes += [round(value * largest / peak) if peak else 0 for value in group]
    leading = x.shape[:-1]
    return torch.tensor(codes, dtype=torch.int8).view(x.shape), x.new_tensor(scales).view(*leading, n // size)


def by_an_inverse(x: Tensor, bits: int, group_size: int | None) -> Pair:
    codes, scales = by_hand(x, bits, group_size)
    return codes, 1 / (1 / scales)


def by_steps(x: Tensor, bits: int, group_size: int | None) -> Pair:
    codes, _ = by_hand(x, bits, group_size)
    groups = x.unflatten(-1, (-1, group_size or x.shape[-1]))
    return codes, groups.abs().amax(-1) * (1 / (2 ** (bits - 1) - 1))


class TestQuantize(RoundedOnceContract):
    name = "quantize"
    oracle = by_hand
    variants = (by_hand, by_an_inverse, by_steps)
    results = ("codes", "scales")
    axes = {"codes": "batch n", "scales": "batch groups"}
    differentiable = False
    ban = LIBRARY
    holds = {
        "Zero groups": ("test_a_group_of_zeros",),
        "Half precision": ("test_half_precision", "test_float64"),
        "Ties": ("test_ties",),
        "Errors": ("test_rows_that",),
    }
    cases = {
        "eight_bits": {},
        "four_bits": {"bits": 4},
        "groups_of_four": {"group_size": 4},
        "four_bits_in_groups_of_two": {"bits": 4, "group_size": 2},
        "three_bits": {"bits": 3, "group_size": 6},
        "negative_alone": lambda d: Call({"x": clear(-d.normal(3, 12).abs())}),
    }
    hard_cases = {"small_weights": lambda d: Call({"x": 2.0**-14 * TestQuantize.call(d).inputs["x"]})}
    growth = {
        "rows": lambda d, n: TestQuantize.call(d, (n,)),
        "n": lambda d, n: TestQuantize.call(d, n=n),
        "groups": lambda d, n: TestQuantize.call(d, n=4 * n, group_size=4),
    }
    timed = {"shape": (128,), "n": 1024, "group_size": 128}
    time_limit = 6.0
    timed_scale = (1.0, 1.0)  # other inputs would bring quotients near a half

    @classmethod
    def call(cls, d: Draw, shape: tuple = (3,), n: int = 12, **more: int) -> Call:
        """Rows of other sizes, and outliers: each group has a scale of its own."""
        x = d.normal(*shape, n) * 2.0 ** d.integers(-3, 4, *shape, n)
        return Call({"x": clear(x, **more), **more})

    def result_dtype(self, name: str, call: Call, dtype: torch.dtype) -> torch.dtype:
        return torch.promote_types(dtype, torch.float32)

    def found(self, attempt: Attempt, told: str, call: Call) -> Pair:
        """Codes and scales, checked but for where a group is of zeros alone."""
        callee, args, kwargs = self.prepare_call(attempt, call)
        with self.case_context(attempt, told, call):
            got = self.named(callee.request(args, kwargs)["value"])
            codes, scales = (tensor(each, attempt.device).cpu() for each in got.values())
        expected, exact = self.expected_leaves(call).values()
        with self.case_context(attempt, told, call):
            match(codes, expected, None, f"codes are right: {told}", self.axes["codes"])
            if scales.shape != exact.shape:
                fail("there is a scale for each group", f"got {tuple(scales.shape)}, expected {tuple(exact.shape)}")
        return codes, scales

    @robust
    def test_a_group_of_zeros_stays_zero(self, attempt: Attempt, draw: Draw) -> None:
        """0 / 0 is nan, and which integer nan becomes hangs on the processor. Rows of padding are such groups."""
        call = self.call(draw, n=64, bits=4, group_size=16)
        x = call.inputs["x"].clone()
        x[1], x[0, 16:32] = 0.0, 0.0
        _, scales = self.found(attempt, "a row and a group of zeros", call.with_inputs(x=x))
        if not scales.isfinite().all():
            fail("the scale of a group of zeros is finite", f"got {scales[~scales.isfinite()][0]}")

    @robust
    def test_ties_go_to_even(self, attempt: Attempt, draw: Draw) -> None:
        """Away from zero, or up, every tie errs in the same direction: weights on a grid of halves gain a bias."""
        halves = torch.arange(-13, 14) / 2.0  # scale 1, or a power of two: the quotients are exact
        for size in (1.0, 0.25, 8.0):
            x = torch.stack([size * torch.cat([halves, torch.tensor([7.0])])] * 2)
            self.found(attempt, f"multiples of half a step of {size:g}", Call({"x": x, "bits": 4}))

    @robust
    def test_rows_that_groups_do_not_divide_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """The last columns of a weight are lost, or a reshape fails far from the configuration."""
        for n, size in ((12, 5), (4, 8)):
            call = Call({"x": draw.normal(3, n), "bits": 4, "group_size": size})
            self.refuses(attempt, call, n, size, sentence=f"groups of {size} in rows of {n} are refused")


def code_by_code(codes: Tensor, scales: Tensor) -> Tensor:
    size = codes.shape[-1] // scales.shape[-1]
    return torch.stack([codes[..., i] * scales[..., i // size] for i in range(codes.shape[-1])], -1)


def repeated(codes: Tensor, scales: Tensor) -> Tensor:
    return codes * scales.repeat_interleave(codes.shape[-1] // scales.shape[-1], -1)


class TestDequantize(Contract):
    name = "dequantize"
    oracle = code_by_code
    variants = (code_by_code, repeated)
    differentiable = False
    ban = LIBRARY
    cases = {"a_row": {"groups": 1}, "groups": {}, "as_many_groups_as_codes": {"groups": 12}}
    more_shapes = {
        "one_code": {"shape": (2,), "n": 1, "groups": 1},
        "no_leading_axes": {"shape": ()},
        "three_leading_axes": {"shape": (2, 1, 3)},
    }
    growth = {
        "rows": lambda d, n: TestDequantize.call(d, (n,)),
        "groups": lambda d, n: TestDequantize.call(d, n=4 * n, groups=n),
    }
    timed = {"shape": (512,), "n": 1024, "groups": 8}
    time_limit = 6.0

    @classmethod
    def call(cls, d: Draw, shape: tuple = (5,), n: int = 12, groups: int = 3) -> Call:
        codes = d.integers(-128, 128, *shape, n, dtype=torch.int8)
        return Call({"codes": codes, "scales": d.uniform(*shape, groups, low=0.1, high=2.0)})


def two_by_two(codes: Tensor) -> Tensor:
    rows = [[a + 8 + 16 * (b + 8) for a, b in zip(r[::2], r[1::2], strict=True)] for r in _rows(codes)]
    return torch.tensor(rows, dtype=torch.uint8).view(*codes.shape[:-1], -1)


def one_by_one(packed: Tensor) -> Tensor:
    rows = [[nibble - 8 for byte in row for nibble in (byte % 16, byte // 16)] for row in _rows(packed)]
    return torch.tensor(rows, dtype=torch.int8).view(*packed.shape[:-1], -1)


def _rows(t: Tensor) -> list[list[int]]:
    return t.reshape(-1, t.shape[-1]).tolist()


class BytesContract(Contract):
    """A function of integers, whose result is exact."""

    variants = ()
    differentiable = False
    half = ()
    off = INTEGERS


class TestPackInt4(BytesContract):
    name = "pack_int4"
    oracle = two_by_two
    holds = {"Errors": ("test_odd_rows",)}
    cases = {
        "every_pair": lambda d: Call({"codes": torch.cartesian_prod(*[torch.arange(-8, 8)] * 2).to(torch.int8)}),
        "rows": {},
    }

    @classmethod
    def call(cls, d: Draw, shape: tuple = (3,), n: int = 10) -> Call:
        return Call({"codes": d.integers(-8, 8, *shape, n + n % 2, dtype=torch.int8)})

    @robust
    def test_odd_rows_are_refused(self, attempt: Attempt, draw: Draw) -> None:
        """The last code meets no other, and is lost without a word."""
        for n in (1, 7):
            codes = draw.integers(-8, 8, 2, 3, n, dtype=torch.int8)
            self.refuses(attempt, Call({"codes": codes}), n, sentence=f"rows of {n} codes are refused")


class TestUnpackInt4(BytesContract):
    name = "unpack_int4"
    oracle = one_by_one
    cases = {"every_byte": lambda d: Call({"packed": torch.arange(256).to(torch.uint8).view(4, 64)}), "rows": {}}

    @classmethod
    def call(cls, d: Draw, shape: tuple = (3,), half: int = 5) -> Call:
        return Call({"packed": d.integers(0, 256, *shape, half, dtype=torch.uint8)})


def whole(x: Tensor, codes: Tensor) -> Pair:
    """The sums in integers, and the scales of the rows of x."""
    rows, scales = by_hand(x, 8, None)
    return rows.long() @ codes.long().mT, scales


def in_integers(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    total, own = whole(x, codes)
    return total * own * scales[:, 0]


def scales_first(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    total, own = whole(x, codes)
    return total * (own * scales[:, 0])


def rounded_sums(x: Tensor, codes: Tensor, scales: Tensor) -> Tensor:
    total, own = whole(x, codes)
    return total.to(x.dtype) * scales[:, 0] * own


class TestInt8Linear(RoundedOnceContract):
    name = "int8_linear"
    oracle = in_integers
    variants = (in_integers, scales_first, rounded_sums)
    differentiable = False
    ban = LIBRARY
    holds = {"Half precision": ("test_half_precision",), "Exact sums": ("test_sums_are_exact",)}
    cases = {
        "rows": {},
        "one_feature": {"out": 1},
        "rows_of_other_sizes": lambda d: TestInt8Linear.call(d, scale=torch.tensor([[0.01], [1.0], [3000.0]])),
    }
    more_shapes = {
        "no_leading_axes": {"shape": ()},
        "three_leading_axes": {"shape": (2, 1, 3)},
        "one_token": {"shape": (2, 1)},
    }
    grows = {"rows": "shape", "in": "size", "out": "out"}
    timed = {"shape": (16,), "size": 256, "out": 64}  # few products: those of int32 have no instruction
    timed_scale = (1.0, 1.0)
    time_limit = 40.0

    @classmethod
    def call(cls, d: Draw, shape: tuple = (3,), size: int = 7, out: int = 5, scale: float | Tensor = 1.0) -> Call:
        codes = d.integers(-127, 128, out, size, dtype=torch.int8)
        given = {"x": clear(scale * d.normal(*shape, size)), "codes": codes}
        return Call(given | {"scales": d.uniform(out, 1, low=0.002, high=0.02)}, wide=("scales",))

    @robust
    def test_sums_are_exact(self, attempt: Attempt, draw: Draw) -> None:
        """Layers are 4,096 wide and wider. Beyond 2^24 float32 loses the last bit of each sum, int16 everything."""
        place = torch.arange(4096)
        for told, up in (("the first half and the second", place < 2048), ("even places and odd ones", place % 2 < 1)):
            rows, codes = (draw.integers(52, 62, n, 2048) * 2 + 1 for n in (2, 5))
            # One even code makes the sum of a half odd; two less in the other, and their roundings do not cancel.
            rows[:, 0], codes[:, 1], order = 127, 112, draw.positions(2048, 2048)
            x, w = torch.empty(2, 4096), torch.empty(5, 4096)
            x[:, up], x[:, ~up] = rows.float(), -rows[:, order].float()
            w[:, up], w[:, ~up] = codes.float(), codes[:, order].float()
            w[:, int(place[~up][0])] -= 2
            call = Call({"x": x, "codes": w.to(torch.int8), "scales": draw.uniform(5, 1, low=0.002, high=0.02)})
            self.verify(attempt, draw, f"26 million in {told}, which cancel", call)
