"""What `alibi_slopes` and `alibi_bias` must do. The oracle follows the paper's code, number by number."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from dojo.bugs import Bug, Equivalent
from dojo.contract import core, fast, robust, stays_near
from dojo.expect import Draw, fail, match, operation_count, steady, tensor
from dojo.judge.faults import Fault
from dojo.judge.proxy import Attempt
from dojo.verdict import Label, Outcome, Section

AXES = "heads q_len k_len"
TIME_LIMIT = 40.0


def slopes(heads: int) -> list[float]:
    """The paper's own recursion."""
    if math.log2(heads).is_integer():
        return [2.0 ** (-8.0 * (head + 1) / heads) for head in range(heads)]
    below = 2 ** math.floor(math.log2(heads))
    return slopes(below) + slopes(2 * below)[0::2][: heads - below]


def biases(heads: int, q_len: int, k_len: int | None = None) -> Tensor:
    keys = q_len if k_len is None else k_len
    distance = [[abs(keys - q_len + query - key) for key in range(keys)] for query in range(q_len)]
    table = [[[-slope * far for far in row] for row in distance] for slope in slopes(heads)]
    return torch.tensor(table, dtype=torch.float64)


def a_few_roundings(expected: Tensor) -> Tensor:
    """Powers in float32 are right to a few units in the last place."""
    return 32 * torch.finfo(torch.float32).eps * expected.abs()


class TestAlibi:
    def verify(self, got: object, expected: Tensor, told: str, sentence: str, axes: str) -> None:
        """One tensor, its dtype, shape and every element."""
        context = Section(Label.INPUT, told)
        got = tensor(got)
        if got.dtype is not torch.float32:
            facts = Section(Label.FACTS, f"got {str(got.dtype).removeprefix('torch.')}")
            raise Fault(Outcome.WRONG, Section(Label.CONTRACT, "the result is float32"), facts, context)
        match(got, expected, a_few_roundings(expected), sentence, axes, context)

    def verify_bias(self, attempt: Attempt, *sizes: int, **keywords: int) -> None:
        """One bias, its arguments by position or by name."""
        told = ", ".join([*map(str, sizes), *(f"{k}={v}" for k, v in keywords.items())])
        got = attempt.alibi_bias(*sizes, **keywords)
        named = dict(zip(("heads", "q_len", "k_len"), sizes, strict=False)) | keywords
        expected = biases(named.get("num_heads", named.get("heads")), named["q_len"], named.get("k_len"))
        self.verify(got, expected, f"alibi_bias({told})", "bias is -slope · |distance|", AXES)

    @core
    def test_slopes_of_powers_of_two_are_a_geometric_series(self, attempt: Attempt) -> None:
        for heads in (8, 1, 2, 4, 16, 64):
            expected = torch.tensor(slopes(heads), dtype=torch.float64)
            sentence = "for a power of two the slopes are r, r², … with r = 2^(-8/heads)"
            self.verify(attempt.alibi_slopes(heads), expected, f"alibi_slopes({heads})", sentence, "heads")

    @core
    def test_slopes_of_other_numbers_follow_the_paper(self, attempt: Attempt) -> None:
        for heads in (3, 12, 5, 6, 7, 20, 25, 71):
            expected = torch.tensor(slopes(heads), dtype=torch.float64)
            sentence = "other numbers of heads take the slopes of the power below, then every other one of the next"
            self.verify(attempt.alibi_slopes(heads), expected, f"alibi_slopes({heads})", sentence, "heads")

    @core
    def test_bias_grows_with_the_distance_in_both_directions(self, attempt: Attempt) -> None:
        for sizes in ((2, 3), (4, 7), (3, 5)):
            self.verify_bias(attempt, *sizes)

    @core
    def test_queries_are_the_last_of_the_keys(self, attempt: Attempt) -> None:
        for sizes in ((2, 3, 5), (4, 1, 7), (3, 5, 5), (2, 6, 11), (3, 2, 1503)):
            self.verify_bias(attempt, *sizes)

    @core
    def test_arguments_may_be_given_by_name(self, attempt: Attempt) -> None:
        self.verify_bias(attempt, 2, 3, k_len=5)
        self.verify_bias(attempt, num_heads=2, q_len=3, k_len=5)
        self.verify_bias(attempt, num_heads=2, q_len=3)

    @core
    def test_stays_in_pytorch(self, attempt: Attempt) -> None:
        for reading in (attempt.alibi_slopes.observe(6), attempt.alibi_bias.observe(6, 3, 5)):
            if reading["foreign"]:
                fail("the computation stays in PyTorch", f"it was handed a {reading['foreign'][0]}")

    @robust
    def test_one_query_and_one_key(self, attempt: Attempt) -> None:
        for sizes in ((2, 1), (1, 1, 1), (3, 1, 2)):
            self.verify_bias(attempt, *sizes)

    @robust
    def test_global_state_is_left_alone(self, attempt: Attempt) -> None:
        for function, sizes in ((attempt.alibi_slopes, (6,)), (attempt.alibi_bias, (6, 3, 5))):
            changed = function.request(sizes, {}, watch=True)["changed"]
            if changed:
                fail("a call leaves global state alone", f"changed: {', '.join(changed)}")

    @robust
    def test_each_call_stands_alone(self, attempt: Attempt) -> None:
        sentence = "a result that was overwritten is not given out again"
        for function, sizes, expected in (
            (attempt.alibi_slopes, (6,), torch.tensor(slopes(6), dtype=torch.float64)),
            (attempt.alibi_bias, (3, 2, 5), biases(3, 2, 5)),
        ):
            prepared = function.prepare(*sizes)
            prepared.spoil(prepared.go())
            self.verify(prepared.fetch(prepared.go()), expected, "the same call again", sentence, AXES)

    @fast
    def test_operation_count_does_not_grow(self, attempt: Attempt) -> None:
        for axis, make in {
            "queries": lambda n: (4, n, 50),
            "keys": lambda n: (4, 3, n),
            "heads": lambda n: (n, 3, 5),
        }.items():
            sizes = (4, 40)
            steady(axis, sizes, [operation_count(attempt.alibi_bias.observe(*make(n))) for n in sizes])

    @fast
    def test_time_stays_near_the_reference(self, attempt: Attempt, reference: Attempt, draw: Draw) -> None:
        stays_near(attempt.alibi_bias, reference.alibi_bias, (8, 250, 300), TIME_LIMIT, draw)

    @fast
    def test_no_tensor_is_larger_than_the_bias_in_float64(self, attempt: Attempt) -> None:
        largest = max(attempt.alibi_bias.observe(4, 100, 200)["largest"].values(), default=0)
        if largest > 2 * 8 * 4 * 200 * 200:
            sentence = "nothing larger than heads times a square of k_len is needed"
            facts = Section(Label.FACTS, f"a tensor has {largest} bytes")
            raise Fault(Outcome.SLOW, Section(Label.CONTRACT, sentence), facts)


BUGS = [
    Bug(
        "exponents from 0",
        "the series starts with its own ratio: the first slope of 8 heads is 1/2, not 1.",
        "return [ratio ** (head + 1) for head in range(heads)]",
        "return [ratio**head for head in range(heads)]",
    ),
    Bug(
        "the formula of powers of two for every number",
        "other numbers of heads follow the paper's code, which interleaves two series.",
        "power = 1 << (num_heads.bit_length() - 1)  # the largest power of two that is not above num_heads",
        "power = num_heads",
    ),
    Bug(
        "slopes of the next power of two, cut off",
        "the first slopes are those of the power below.",
        "power = 1 << (num_heads.bit_length() - 1)  # the largest power of two that is not above num_heads",
        "power = 1 << (num_heads - 1).bit_length(); return torch.tensor(geometric(power)[:num_heads])",
    ),
    Bug(
        "every other slope from the second",
        "the remaining slopes are every other one of the next power's, from the first.",
        "slopes += geometric(2 * power)[0::2][: num_heads - power]",
        "slopes += geometric(2 * power)[1::2][: num_heads - power]",
    ),
    Bug(
        "the next slopes of the longer series in a row",
        "every other slope of the longer series is new; those between are there already.",
        "slopes += geometric(2 * power)[0::2][: num_heads - power]",
        "slopes += geometric(2 * power)[: num_heads - power]",
    ),
    Bug(
        "slopes sorted",
        "the paper's code appends the additional slopes and leaves their order.",
        "return torch.tensor(slopes, dtype=torch.float32)",
        "return torch.tensor(sorted(slopes, reverse=True), dtype=torch.float32)",
    ),
    Bug(
        "the ratio 2^(-1)",
        "slopes span 8 powers of two, whatever the number of heads: the ratio is 2^(-8/heads).",
        "ratio = 2.0 ** (-8.0 / heads)",
        "ratio = 2.0**-1.0",
    ),
    Bug(
        "float64 slopes",
        "slopes and biases are float32.",
        "return torch.tensor(slopes, dtype=torch.float32)",
        "return torch.tensor(slopes, dtype=torch.float64)",
    ),
    Bug(
        "a bonus for distance",
        "the bias is a penalty: it is negative.",
        "return -alibi_slopes(num_heads)[:, None, None] * distance",
        "return alibi_slopes(num_heads)[:, None, None] * distance",
    ),
    Bug(
        "no absolute value",
        "keys behind the query get a penalty as well; the causal mask is another matter.",
        "distance = (query[:, None] - key).abs()",
        "distance = query[:, None] - key",
    ),
    Bug(
        "nothing for keys behind the query",
        "the distance counts in both directions.",
        "distance = (query[:, None] - key).abs()",
        "distance = (query[:, None] - key).clamp(min=0)",
    ),
    Bug(
        "keys behind the query set to minus infinity",
        "the causal mask is another matter: the bias is finite everywhere.",
        "return -alibi_slopes(num_heads)[:, None, None] * distance",
        "return (-alibi_slopes(num_heads)[:, None, None] * distance).masked_fill(query[:, None] < key, -torch.inf)",
    ),
    Bug(
        "queries counted from 0",
        "with a cache the queries are the last of the keys: query i stands at k_len - q_len + i.",
        "query = torch.arange(q_len) + (k_len - q_len)",
        "query = torch.arange(q_len)",
    ),
    Bug(
        "k_len ignored",
        "the bias has one column for each key.",
        "key = torch.arange(k_len)",
        "key = torch.arange(q_len) + (k_len - q_len)",
    ),
    Bug(
        "distance squared",
        "the bias is linear in the distance: that is its name.",
        "distance = (query[:, None] - key).abs()",
        "distance = (query[:, None] - key).square()",
    ),
]

EQUIVALENT = (
    Equivalent(r"num_heads > power.*→", "for a power of two the tail is empty."),
    Equivalent(r"dtype=torch.float32.*→", "floats make a float32 tensor."),
)
