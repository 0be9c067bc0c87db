"""What the description of a mismatch says, and that it says nothing untrue and never fails."""

import math
import random
import time

import pytest
import torch

from dojo.contracts.checks.tolerance import error_ratio
from dojo.verdict.axes import axis_names
from dojo.verdict.mismatch.comparison import kind
from dojo.verdict.mismatch.describe import describe, sections
from dojo.verdict.types import Label

AXES = ("batch", "heads", "seq", "dim")
SHAPE = (2, 4, 6, 8)
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32, torch.uint64]
DTYPES = [*FLOATS, *INTEGERS, torch.bool, torch.complex32, torch.complex64, torch.complex128]


@pytest.fixture
def expected():
    return torch.randn(SHAPE, dtype=torch.float64, generator=torch.Generator().manual_seed(7))


def ratio_of(got, expected, allowed):
    """The errors as `match` measures them: none between tensors of another shape or kind, equality of exact types."""
    if got.shape != expected.shape or kind(got) != kind(expected):
        return None
    if kind(got) == "integer":
        got = got.long()  # a grader has checked the dtype
    return error_ratio(got, expected, allowed if expected.is_floating_point() else None)


def told(got, expected, axes=AXES, allowed=1e-6, inputs=None):
    exact = not expected.is_floating_point()
    budget = torch.full(expected.shape, 0.0 if exact else allowed, dtype=torch.float64)
    names = axis_names(expected.dim(), axes)
    return {
        s.label: s.text for s in describe(got, expected, budget, ratio_of(got, expected, budget), names, inputs or {})
    }


def pattern(got, expected, **how):
    return told(got, expected, **how).get(Label.PATTERN, "")


def changed(t, at, change):
    t = t.clone()
    t[at] = change(t[at])
    return t.float()


def noise(t):
    return t + 0.1 + torch.rand(t.shape, generator=torch.Generator().manual_seed(3))


ALL = slice(None)
PLACES = [
    ((ALL, [1, 3]), "only heads 1 and 3 (there, every element)"),
    ((ALL, 2), "only head 2 (there, every element)"),
    ((ALL, [0, 1, 3]), "every head but 2 (there, every element)"),
    ((ALL, ALL, slice(1, None)), "only seq ≥ 1 (there, every element)"),
    ((ALL, ALL, 0), "only seq 0 (there, every element)"),
    ((ALL, ALL, -1), "only the last seq, 5 (there, every element)"),
    ((ALL, ALL, slice(0, -1)), "every seq but the last (there, every element)"),
    ((ALL, ALL, slice(2, 5)), "only seq 2 to 4 (there, every element)"),
    ((..., slice(1, None, 2)), "only odd dim (there, every element)"),
    ((..., slice(0, None, 2)), "only even dim (there, every element)"),
    ((..., slice(1, None, 3)), "only dim 1, 4, … in steps of 3 (there, every element)"),
    ((..., slice(4, None)), "only the second half of dim (there, every element)"),
    ((..., slice(0, 4)), "only the first half of dim (there, every element)"),
    ((1, ALL, slice(1, None)), "only batch 1, only seq ≥ 1 (there, every element)"),
]


@pytest.mark.parametrize(("at", "words"), PLACES, ids=[words for _, words in PLACES])
def test_names_the_places_of_the_wrong_elements(expected, at, words):
    assert pattern(changed(expected, at, noise), expected) == words


RELATIONS = {
    "constant factor 2: got is that times the expected": lambda e: 2 * e,
    "constant factor 0.3536 = 1/√8: got is that times the expected": lambda e: e / math.sqrt(8),
    "constant factor 2.828 = √8: got is that times the expected": lambda e: e * math.sqrt(8),
    "constant factor 0.5 = 1/2: got is that times the expected": lambda e: e / 2,
    "constant factor 0.69315: got is that times the expected": lambda e: e * math.log(2),
    "constant offset 1: got is the expected plus that": lambda e: e + 1,
    "the sign is flipped": lambda e: -e,
    "got is all zeros": torch.zeros_like,
    "got is the expected with seq reversed": lambda e: e.flip(2),
    "shifted by 1 along seq: place i holds what belongs to place i − 1": lambda e: e.roll(1, 2),
    "shifted by -1 along seq: place i holds what belongs to place i + 1": lambda e: e.roll(-1, 2),
    "dim in another order: first all even places, then all odd ones": lambda e: torch.cat(
        [e[..., ::2], e[..., 1::2]], -1
    ),
    "dim in another order: its two halves are interleaved": lambda e: e[..., [0, 4, 1, 5, 2, 6, 3, 7]],
    "neighbours in dim (2i and 2i + 1) are exchanged": lambda e: e[..., [1, 0, 3, 2, 5, 4, 7, 6]],
    "the two halves of dim are exchanged": lambda e: e.roll(4, -1),
    "heads in another order: head 1 holds what belongs to head 2, head 2 holds what belongs to head 1": lambda e: e[
        :, [0, 2, 1, 3]
    ],
    "every head holds what belongs to head 0": lambda e: e[:, :1].expand(SHAPE),
    "got is the same for every head": lambda e: e.mean(1, keepdim=True).expand(SHAPE),
    "each row along dim is the expected times a factor of its own": lambda e: e * torch.linspace(2, 3, 6)[:, None],
    "each row along dim is the expected plus an offset of its own": lambda e: e + torch.linspace(2, 3, 6)[:, None],
    "each dim is the expected times a factor of its own (from 2 to 3)": lambda e: e * torch.linspace(2, 3, 8),
    "the right values in the wrong places": lambda e: e.transpose(1, 2).reshape(SHAPE),
    "every value got is exactly a bfloat16 number, in a tensor of float32": lambda e: e.bfloat16(),
    "like one float16 rounding": lambda e: e + 3e-4 * torch.randn(SHAPE).sign() * e.abs(),
}


@pytest.mark.parametrize("words", RELATIONS)
def test_names_how_got_comes_from_the_expected(expected, words):
    assert words in pattern(RELATIONS[words](expected).float(), expected).splitlines()[0]


def test_a_relation_of_the_wrong_elements_alone_says_so(expected):
    assert pattern(changed(expected, (ALL, [1, 3]), lambda t: t * 2), expected).splitlines() == [
        "constant factor 2: every wrong element is that times the expected",
        "only heads 1 and 3 (there, every element)",
    ]
    assert "the sign of every wrong element" in pattern(changed(expected, (..., 0), torch.neg), expected)
    assert "every wrong element is 0.2 = 1/5" in pattern(changed(expected, (0, 0), lambda t: 0 * t + 0.2), expected)


def test_two_axes_swapped(expected):
    square = expected[:, :, :4, :4]
    assert "got is the expected with seq and dim swapped" in pattern(square.mT.float(), square)


def test_an_input_returned_as_it_came(expected):
    x = torch.randn(SHAPE)
    assert pattern(x, expected, inputs={"n": 3, "mask": None, "x": x}) == "got is the input x unchanged"
    assert pattern(x, expected, inputs={"x": x.clone().requires_grad_()}) == "got is the input x unchanged"
    other = {"flat": x.flatten(), "ids": x.long(), "y": x + 1}
    assert "unchanged" not in pattern(x, expected, inputs=other)
    pairs = torch.view_as_complex(torch.randn(5, 3, 2))
    turned = pairs.to(torch.complex128) * 1j
    assert pattern(pairs, turned, axes=("seq", "pair"), inputs={"x": pairs}).startswith("got is the input x unchanged")


def test_an_input_names_the_constant_that_it_explains(expected):
    assert "1/√24" in pattern((expected / 24**0.5).float(), expected, inputs={"weight": torch.zeros(24)})
    assert "1/√24" not in pattern((expected / 24**0.5).float(), expected)


def test_small_errors_are_not_given_a_story(expected):
    assert pattern((expected * (1 + 1e-7)).float(), expected, allowed=1e-7).count("factor") == 0


def test_a_single_wrong_element_has_no_pattern_and_no_map(expected):
    sections = told(changed(expected, (1, 2, 3, 4), lambda t: t + 1), expected)
    assert set(sections) == {Label.FACTS, Label.ELEMENTS}
    assert sections[Label.ELEMENTS].startswith("1 of 384 elements is off\n[batch 1, head 2, seq 3, dim 4]: got ")
    assert sections[Label.ELEMENTS].endswith("1e6 × allowed")


def test_first_and_worst_element_by_axis_name(expected):
    got = expected.clone()
    got[0, 1, 2, 3], got[1, 3, 5, 7] = expected[0, 1, 2, 3] + 2e-3, expected[1, 3, 5, 7] - 0.13
    count, first, worst = told(got, expected)[Label.ELEMENTS].splitlines()
    assert count == "2 of 384 elements are off"
    assert first.startswith("first [batch 0, head 1, seq 2, dim 3]: got ")
    assert first.endswith("2e3 × allowed")
    assert worst.startswith("worst [batch 1, head 3, seq 5, dim 7]: got ")
    assert worst.endswith("1.3e5 × allowed")


def test_shown_values_differ_visibly():
    text = told(torch.tensor([1.000001, 2.0]), torch.tensor([1.0, 2.0]).double(), ("dim",), 1e-9)[Label.ELEMENTS]
    assert "got 1.000001, expected 1," in text


@pytest.mark.parametrize(
    ("axes", "place"),
    [
        (("*batch", "seq", "dim"), "[batch axis 0 1, batch axis 1 2, seq 3, dim 4]"),
        (("dim",), "[batch axis 0 1, batch axis 1 2, batch axis 2 3, dim 4]"),
        ((), "[batch axis 0 1, batch axis 1 2, batch axis 2 3, batch axis 3 4]"),
        (("a", "queries", "kv_heads", "seq", "seq"), "[query 1, kv_head 2, seq 3, seq' 4]"),
    ],
)
def test_axes_too_few_too_many_starred_or_alike(expected, axes, place):
    assert place in told(changed(expected, (1, 2, 3, 4), lambda t: t + 1), expected, axes)[Label.ELEMENTS]


SHAPES = [
    ((2, 4, 8, 6), "the last two axes (seq and dim) are swapped"),
    ((2, 6, 4, 8), "the axes heads and seq are swapped"),
    ((8, 6, 4, 2), "the right sizes in another order"),
    ((2, 6, 8), "the axis heads is missing"),
    ((2, 4, 1, 6, 8), "an axis of size 1 too many, at place 2"),
    ((2, 24, 8), "the axes heads and seq are merged into one"),
    ((2, 4, 6, 2, 4), "the axis dim is split into 2 and 4"),
    ((2, 4, 1, 8), "seq has 1, not 6 (it would broadcast, but has not been)"),
    ((2, 4, 5, 8), "seq has 5, not 6"),
    ((384,), "the axes batch, heads, seq and dim are merged into one"),
    ((16, 24), "2 axes, not 4; the number of elements is right"),
    ((), "0 axes, not 4"),
]


@pytest.mark.parametrize(("shape", "words"), SHAPES, ids=[words for _, words in SHAPES])
def test_another_shape_is_explained_and_no_value_compared(expected, shape, words):
    assert told(torch.zeros(shape), expected) == {
        Label.FACTS: f"shape: got {shape}, expected (2, 4, 6, 8): {words}",
    }


MASK = torch.ones(6, 7).tril().bool()
GRID = ("query", "key")


def test_another_kind_of_dtype_is_explained():
    additive = torch.zeros(6, 7).masked_fill(~MASK, -math.inf)
    kinds = [
        (MASK.float(), MASK, "dtype: got float32, expected bool (the values are right)"),
        (~MASK.int(), MASK, "dtype: got int32, expected bool"),
        (additive, MASK, "dtype: got float32, expected bool (the values are those of an additive mask: 0 for True"),
        (torch.zeros(3, dtype=torch.cfloat), torch.ones(3).double(), "got complex64, expected a floating point type"),
        (torch.ones(3), torch.ones(3).long(), "got float32, expected an integer type (the values are right)"),
    ]
    for got, expected, words in kinds:
        facts = told(got, expected, GRID)
        assert list(facts) == [Label.FACTS]
        assert words in facts[Label.FACTS]


MASKS = [
    (~MASK, "every element is inverted: True where False is expected, and the other way round"),
    (torch.ones(6, 7).bool(), "got is True everywhere"),
    (torch.ones(6, 7).tril(-1).bool(), "only on the diagonal\nFalse where True is expected, never the other way round"),
    (torch.ones(6, 7).tril(1).bool(), "only where key = query + 1\nTrue where False is expected"),
    (torch.ones(6, 7).tril(1).bool(), "shifted by 1 along key"),
]


def test_masks():
    for got, words in MASKS:
        assert words in pattern(got, MASK, axes=GRID)
    square = MASK[:, :6]
    assert "got is the expected with query and key swapped" in pattern(square.T, square, axes=GRID)
    values = torch.randn(6, 7).double()
    assert "only above the diagonal" in pattern((values + torch.rand(6, 7).triu(1)).float(), values, axes=GRID)


def test_integers_are_compared_as_integers():
    ids = torch.arange(12).reshape(3, 4)
    assert "constant offset 1" in pattern(ids + 1, ids, axes=("batch", "seq"))
    big = torch.tensor([2**53])
    assert "got 9007199254740993, expected 9007199254740992" in told(big + 1, big, ("seq",))[Label.ELEMENTS]


def test_of_complex_numbers_only_the_wrong_part_is_told():
    expected = torch.randn(3, 4, dtype=torch.complex128)
    expected[0, 0] = math.nan
    got = expected.clone()
    got.imag[1:] += 1
    sections = told(got, expected, ("seq", "pair"))
    assert sections[Label.ELEMENTS].splitlines()[0] == "8 of 24 elements are off"
    assert "[seq 1, pair 0, re/im 1]: got " in sections[Label.ELEMENTS]
    assert "only seq 1 and 2, only re/im 1 (there, every element)" in sections[Label.PATTERN]


@pytest.fixture
def weights():
    w = torch.softmax(torch.randn(2, 3, 5, 5, dtype=torch.float64), -1)
    w[1, :, 3:] = 0
    return w


WEIGHTS = ("batch", "heads", "query", "key")


def test_nan_in_rows_that_may_attend_to_nothing(weights):
    sections = told(torch.where(weights == 0, math.nan, weights).float(), weights, WEIGHTS)
    assert sections[Label.FACTS].splitlines()[1] == "30 of 150 elements are nan, where the expected has none"
    assert "nan only in rows that are all zero in the expected: those that may attend to" in sections[Label.PATTERN]
    assert "!" in sections[Label.MAP]
    elsewhere = weights.index_fill(2, torch.tensor([0]), math.nan)
    assert "nan only" not in pattern(elsewhere, weights, axes=WEIGHTS)


def test_rows_that_do_not_sum_to_one(weights):
    uniform = pattern(torch.where(weights == 0, 0.2, weights).float(), weights, axes=WEIGHTS)
    assert "rows along key that should be all zero have a sum (from 1 to 1)" in uniform
    alive = weights[0]
    scaled = pattern((alive * torch.rand(5)).float(), alive, axes=WEIGHTS[1:])
    assert "the sums along key are not 1, but from 0." in scaled
    other = pattern(torch.softmax(torch.randn(3, 5, 5), 1), alive, axes=WEIGHTS[1:])
    assert "the sums along key are not 1; those along query are" in other


def test_infinities_that_agree_are_right(expected):
    both = expected.masked_fill(expected > 1, -math.inf)
    assert set(told(both.float(), both)) == {Label.FACTS}
    moved = told(both.roll(1, 0).float(), both)[Label.FACTS]
    assert "-inf" in moved


def test_the_map_shows_the_two_axes_that_vary():
    e = torch.randn(2, 3, 5, 6, dtype=torch.float64)
    got = e + torch.ones(5, 6).triu(2)
    got[:, :, 0, 5] = math.nan
    assert told(got, e)[Label.MAP].splitlines() == [
        "seq ↓ dim →",
        "   0   4",
        " 0 ··███!",
        " 1 ···███",
        " 2 ····██",
        " 3 ·····█",
        " 4 ······",
        "█ over 1e5×, ! nan or inf, · right (×: the allowed error)",
    ]


def test_a_large_map_is_reduced_by_the_worst():
    e = torch.randn(100, 100, dtype=torch.float64)
    lines = told(e + torch.eye(100), e, GRID)[Label.MAP].splitlines()
    assert len(lines) <= 2 + 16 + 1
    assert max(map(len, lines[1:-1])) <= 4 + 32
    assert lines[2] == "  0 ██" + "·" * 23
    assert lines[-1].endswith("one sign is the worst of 7 × 4")


def test_no_map_where_words_say_it_all(expected):
    for got in (expected * 2, changed(expected, (ALL, [1, 3]), noise), changed(expected, (..., 1), noise)):
        assert Label.MAP not in told(got, expected)


def test_nothing_wrong_is_said_of_a_right_result(expected):
    assert told(expected.float(), expected) == {Label.FACTS: "shape (2, 4, 6, 8), float32"}


def odd(rng, shape, dtype):
    t = torch.randn(shape, dtype=torch.float64) * rng.choice([1, 1, 1e-30, 1e300])
    if rng.random() < 0.4:
        t = torch.where(torch.rand(shape) < rng.choice([0.1, 0.9, 1]), rng.choice([math.nan, math.inf, 0.0, -1e308]), t)
    if dtype.is_complex:
        return torch.complex(t, -t).to(dtype)
    return t.to(dtype) if dtype.is_floating_point else t.nan_to_num(0, 3, -3).clamp(0, 100).to(dtype)


def test_never_fails_on_odd_input():
    rng = random.Random(5)
    for _ in range(1500):
        shape = tuple(rng.choice([0, 1, 1, 2, 3, 4, 7]) for _ in range(rng.randint(0, 5)))
        kind = rng.choice([torch.float64] * 3 + [torch.bool, torch.int64, torch.complex128])
        expected = odd(rng, shape, kind)
        got = odd(rng, rng.choice([shape] * 9 + [shape[::-1]]), rng.choice([kind, rng.choice(DTYPES)]))
        allowed = torch.rand(shape, dtype=torch.float64) * rng.choice([0, 1e-6, 1, math.nan, math.inf])
        axes = tuple(rng.choices(["*batch", "heads", "seq", "dim"], k=rng.randint(0, 6)))
        # The inner function: describe itself would hide a fault.
        ratio, names = ratio_of(got, expected, allowed), axis_names(expected.dim(), axes)
        found = list(sections(got, expected, allowed, ratio, names, {"x": got, "n": 2}))
        assert found[0].label is Label.FACTS
        assert all(s.text.strip() for s in found)


@pytest.mark.parametrize(
    "got",
    [torch.eye(3, device="meta"), torch.eye(3).to_sparse(), torch.eye(3, requires_grad=True), [[1.0]], None],
    ids=["meta", "sparse", "with gradient", "list", "none"],
)
def test_never_fails_on_what_is_no_plain_tensor(got):
    zeros = torch.zeros(3, 3).double()
    assert describe(got, torch.ones(3, 3).double(), zeros, zeros, GRID, {"x": got})[0].label is Label.FACTS


def test_is_fast():
    e = torch.randn(2, 5, 10, 100, dtype=torch.float64)
    got, allowed = (e + 0.1 * torch.randn(e.shape)).float(), torch.full_like(e, 1e-6)
    got[0, 0, 0, 0] = e[0, 0, 0, 0]
    ratio = error_ratio(got, e, allowed)

    def seconds():
        start = time.perf_counter()
        describe(got, e, allowed, ratio, AXES, {"x": got})
        return time.perf_counter() - start

    assert min(seconds() for _ in range(10)) < 0.05  # about 0.004 on an idle machine
