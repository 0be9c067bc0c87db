"""What `causal_mask` must do. The oracle asks of each query and key which stands where."""

from __future__ import annotations

import torch
from torch import Tensor

from dojo.contracts import Attempt, GeneratorContract, fail, robust


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
    holds = {"Alignment": ("test_a_square_mask", "test_queries_are_the_last"), "Device": ("test_the_mask_is_on",)}
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
