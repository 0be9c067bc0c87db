"""What `causal_mask` must do. The oracle asks of each query and key which stands where."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.bugs import Bug
from dojo.contract import core, fast, robust, stays_near
from dojo.expect import Draw, fail, match, operation_count, refuses, steady, tensor
from dojo.judge.faults import Fault
from dojo.judge.proxy import Attempt
from dojo.verdict import Label, Outcome, Section

AXES = "q_len k_len"
TIME_LIMIT = 40.0


def oracle(q_len: int, k_len: int | None = None) -> Tensor:
    keys = q_len if k_len is None else k_len
    rows = [[key <= keys - q_len + query for key in range(keys)] for query in range(q_len)]
    return torch.tensor(rows, dtype=torch.bool).reshape(q_len, keys)


class TestCausalMask:
    def verify(self, attempt: Attempt, *lengths: int, **keywords: int) -> None:
        """One mask, its dtype, shape and every element."""
        told = ", ".join([*map(str, lengths), *(f"{k}={v}" for k, v in keywords.items())])
        context = Section(Label.INPUT, f"causal_mask({told})")
        got = tensor(attempt.causal_mask(*lengths, **keywords))
        if got.dtype is not torch.bool:
            raise Fault(
                Outcome.WRONG,
                Section(Label.CONTRACT, "the mask is boolean"),
                Section(Label.FACTS, f"got {got.dtype}"),
                context,
            )
        match(got, oracle(*lengths, **keywords), None, "query i may see keys up to its own position", AXES, context)

    @core
    def test_a_square_mask_is_lower_triangular(self, attempt: Attempt) -> None:
        for length in (2, 5, 1, 17):
            self.verify(attempt, length)

    @core
    def test_queries_are_the_last_of_the_keys(self, attempt: Attempt) -> None:
        for q_len, k_len in ((2, 5), (1, 7), (3, 3), (6, 7), (5, 11), (20, 70), (300, 301), (1, 1500)):
            self.verify(attempt, q_len, k_len)

    @core
    def test_k_len_may_be_given_by_name(self, attempt: Attempt) -> None:
        self.verify(attempt, 3, k_len=5)
        self.verify(attempt, q_len=3, k_len=5)
        self.verify(attempt, q_len=3)

    @core
    def test_no_queries_give_an_empty_mask(self, attempt: Attempt) -> None:
        for lengths in ((0,), (0, 0), (0, 5)):
            self.verify(attempt, *lengths)

    @core
    def test_stays_in_pytorch(self, attempt: Attempt) -> None:
        foreign = attempt.causal_mask.observe(3, 5)["foreign"]
        if foreign:
            fail("the computation stays in PyTorch", f"it was handed a {foreign[0]}")

    @robust
    def test_fewer_keys_than_queries_are_refused(self, attempt: Attempt) -> None:
        sentence = "k_len below q_len is a ValueError"
        refuses(lambda: attempt.causal_mask(7, 5), 7, 5, sentence=sentence)
        refuses(lambda: attempt.causal_mask(3, k_len=0), 3, 0, sentence=sentence)

    @robust
    def test_negative_lengths_are_refused(self, attempt: Attempt) -> None:
        sentence = "a negative length is a ValueError"
        refuses(lambda: attempt.causal_mask(-3), -3, sentence=sentence)
        refuses(lambda: attempt.causal_mask(-3, 5), -3, sentence=sentence)
        refuses(lambda: attempt.causal_mask(-1), -1, sentence=sentence)
        refuses(lambda: attempt.causal_mask(-1, 4), -1, sentence=sentence)
        refuses(lambda: attempt.causal_mask(-5, -3), sentence=sentence)

    @robust
    def test_the_mask_is_on_the_device_that_is_asked_for(self, attempt: Attempt) -> None:
        for device in (torch.device("meta"), "meta"):
            placed = attempt.causal_mask.elsewhere(3, 5, device=device)["placed"]
            if placed is None:  # our make-believe device could not tell: ask a real one, which is slow to start
                placed = attempt.causal_mask(3, 5, device=device).is_meta
            if not placed:
                fail("the mask is on the device that is asked for", "it stayed on the CPU")

    @robust
    def test_global_state_is_left_alone(self, attempt: Attempt) -> None:
        changed = attempt.causal_mask.request((5,), {}, watch=True)["changed"]
        if changed:
            fail("a call leaves global state alone", f"changed: {', '.join(changed)}")

    @robust
    def test_each_call_stands_alone(self, attempt: Attempt) -> None:
        prepared = attempt.causal_mask.prepare(3, 5)
        prepared.spoil(prepared.go())
        match(
            prepared.fetch(prepared.go()),
            oracle(3, 5),
            None,
            "a mask that was overwritten is not given out again",
            AXES,
        )

    @fast
    def test_operation_count_does_not_grow(self, attempt: Attempt) -> None:
        sizes = (3, 40)
        steady("the lengths", sizes, [operation_count(attempt.causal_mask.observe(n, n + 1)) for n in sizes])

    @fast
    def test_no_tensor_is_larger_than_the_mask_in_int64(self, attempt: Attempt) -> None:
        largest = max(attempt.causal_mask.observe(100, 200)["largest"].values(), default=0)
        if largest > 2 * 8 * 200 * 200:
            sentence = "nothing larger than a square of k_len is needed"
            raise Fault(
                Outcome.SLOW, Section(Label.CONTRACT, sentence), Section(Label.FACTS, f"a tensor has {largest} bytes")
            )

    @fast
    def test_time_stays_near_the_reference(self, attempt: Attempt, reference: Attempt, draw: Draw) -> None:
        stays_near(attempt.causal_mask, reference.causal_mask, (700, 900), TIME_LIMIT, draw)


BUGS = [
    Bug(
        "mask inverted",
        "True means that a query may attend to a key.",
        "return key_position <= query_position[:, None]",
        "return key_position > query_position[:, None]",
    ),
    Bug(
        "the query's own position is hidden",
        "a query may see keys up to itself, so the diagonal is True.",
        "return key_position <= query_position[:, None]",
        "return key_position < query_position[:, None]",
    ),
    Bug(
        "one key of the future is visible",
        "a query sees nothing behind its own position.",
        "return key_position <= query_position[:, None]",
        "return key_position <= query_position[:, None] + 1",
    ),
    Bug(
        "the causal corner at the top left",
        "with a cache the queries are the last of the keys: query i stands at k_len - q_len + i.",
        "offset = k_len - q_len",
        "offset = 0",
    ),
    Bug(
        "k_len ignored",
        "the mask has one column for each key.",
        "key_position = torch.arange(k_len, device=device)",
        "key_position = torch.arange(q_len, device=device)",
    ),
    Bug(
        "the offset with the wrong sign",
        "queries stand k_len - q_len places further on, not further back.",
        "offset = k_len - q_len",
        "offset = q_len - k_len",
    ),
    Bug(
        "transposed: queries see the future",
        "rows are queries and columns are keys.",
        "return key_position <= query_position[:, None]",
        "return key_position >= query_position[:, None]",
    ),
    Bug(
        "a float mask to be added",
        "the contract asks for booleans, not for 0 and -inf.",
        "return key_position <= query_position[:, None]",
        "return torch.where(key_position <= query_position[:, None], 0.0, -torch.inf)",
    ),
    Bug(
        "zeros and ones instead of booleans",
        "an integer mask is not boolean: `~mask` of it is -1 and -2, and indexing with it picks rows 0 and 1.",
        "return key_position <= query_position[:, None]",
        "return (key_position <= query_position[:, None]).long()",
    ),
    Bug(
        "device ignored",
        "the mask must be where the scores are.",
        "return key_position <= query_position[:, None]",
        "return (key_position <= query_position[:, None]).cpu()",
    ),
    Bug(
        "fewer keys than queries are not refused",
        "the first queries would stand before the first key and see nothing.",
        "if q_len < 0 or k_len < q_len:",
        "if q_len < 0 or k_len < 0:",
    ),
    Bug(
        "an empty mask is refused",
        "no queries are a legal number of queries.",
        "if q_len < 0 or k_len < q_len:",
        "if q_len <= 0 or k_len < q_len:",
    ),
]
