"""What `causal_mask` must do. The oracle asks of each query and key which stands where."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Attempt, GeneratorContract, KnownBugs, fail, robust


def who_sees_whom(q_len: int, k_len: int | None = None) -> Tensor:
    keys = q_len if k_len is None else k_len
    rows = [[key <= keys - q_len + query for key in range(keys)] for query in range(q_len)]
    return torch.tensor(rows, dtype=torch.bool).reshape(q_len, keys)


class TestCausalMask(GeneratorContract):
    name = "causal_mask"
    oracle = who_sees_whom
    claims = {
        "a square mask is lower triangular": [(2,), (5,), (1,), (17,)],
        "queries are the last of the keys": [
            *((2, 5), (1, 7), (3, 3), (6, 7), (5, 11), (20, 70)),
            *((300, 301), (1, 1500), (9, 2101)),  # float16 would tell positions apart up to 2,048
        ],
    }
    edges = {"no queries give an empty mask": [(0,), (0, 0), (0, 5)]}
    refused = {
        "k_len below q_len is a ValueError": [(7, 5), (3, 0)],
        "a negative length is a ValueError": {(-5, -3): ()}
        | {given: (min(given),) for given in ((-3,), (-3, 5), (-1,), (-1, 4), (2, -1), (0, -4))},
    }
    growth = {"the lengths": lambda n: (n, n + 1)}
    timed = (700, 900)

    @robust
    def test_the_mask_is_on_the_device_that_is_asked_for(self, attempt: Attempt) -> None:
        """On a GPU the mask meets scores of another device, and the first forward pass fails."""
        for device in (torch.device("meta"), "meta"):
            placed = attempt.causal_mask.fake_device(3, 5, device=device)["placed"]
            if placed is None:  # our make-believe device could not tell: ask a real one, which is slow to start
                placed = attempt.causal_mask(3, 5, device=device).is_meta
            if not placed:
                fail("the mask is on the device that is asked for", "it stayed on the CPU")


CLAIMS = {  # words of the statement, and the checks that hold them
    "Result": "lower_triangular|the_device|queries_are_the_last",
    "negative length": "ValueError",
}

BUGS = KnownBugs(
    """
mask inverted
    True means that a query may attend to a key.
    key_position <= query_position[:, None]  →  key_position > query_position[:, None]
the query's own position is hidden
    a query may see keys up to itself, so the diagonal is True.
    key_position <= query_position[:, None]  →  key_position < query_position[:, None]
one key of the future is visible
    a query sees nothing behind its own position.
    key_position <= query_position[:, None]  →  key_position <= query_position[:, None] + 1
the causal corner at the top left
    with a cache the queries are the last of the keys: query i stands at k_len - q_len + i.
    offset = k_len - q_len  →  offset = 0
k_len ignored
    the mask has one column for each key.
    torch.arange(k_len, device=device)  →  torch.arange(q_len, device=device)
the offset with the wrong sign
    queries stand k_len - q_len places further on, not further back.
    offset = k_len - q_len  →  offset = q_len - k_len
transposed: queries see the future
    rows are queries and columns are keys.
    key_position <= query_position[:, None]  →  key_position >= query_position[:, None]
a float mask to be added
    the contract asks for booleans, not for 0 and -inf.
    key_position <= query_position[:, None]  →  torch.where(key_position <= query_position[:, None], 0.0, -torch.inf)
zeros and ones instead of booleans
    an integer mask is not boolean: `~mask` of it is -1 and -2, and indexing with it picks rows 0 and 1.
    key_position <= query_position[:, None]  →  (key_position <= query_position[:, None]).long()
positions in float16
    float16 holds whole numbers up to 2,048: beyond, neighbours are equal and a key of the future is visible.
    key_position <= query_position[:, None]  →  key_position.half() <= query_position[:, None].half()
device ignored
    the mask must be where the scores are.
    key_position <= query_position[:, None]  →  (key_position <= query_position[:, None]).cpu()
fewer keys than queries are not refused
    the first queries would stand before the first key and see nothing.
    if q_len < 0 or k_len < q_len:  →  if q_len < 0 or k_len < 0:
an empty mask is refused
    no queries are a legal number of queries.
    if q_len < 0 or  →  if q_len <= 0 or
"""
)
