"""What `alibi_slopes` and `alibi_bias` must do. The oracle follows the paper's code, number by number."""

from __future__ import annotations

import math

from dojo.contracts import GeneratorContract


def slopes(num_heads: int) -> list[float]:
    """The paper's own recursion."""
    if math.log2(num_heads).is_integer():
        return [2.0 ** (-8.0 * (head + 1) / num_heads) for head in range(num_heads)]
    below = 2 ** math.floor(math.log2(num_heads))
    return slopes(below) + slopes(2 * below)[0::2][: num_heads - below]


def bias(num_heads: int, q_len: int, k_len: int | None = None) -> list[list[list[float]]]:
    keys = q_len if k_len is None else k_len
    distance = [[abs(keys - q_len + query - key) for key in range(keys)] for query in range(q_len)]
    return [[[-slope * far for far in row] for row in distance] for slope in slopes(num_heads)]


class TestAlibiSlopes(GeneratorContract):
    name = "alibi_slopes"
    oracle = slopes
    claims = {
        "slopes of powers of two are a geometric series": [(8,), (1,), (2,), (4,), (16,), (64,)],
        "slopes of other numbers follow the paper": [(3,), (12,), (5,), (6,), (7,), (20,), (25,), (71,)],
    }
    holds = {"Head counts": ("test_slopes_of",)}


class TestAlibiBias(GeneratorContract):
    name = "alibi_bias"
    oracle = bias
    claims = {
        "bias grows with the distance in both directions": [(2, 3), (4, 7), (3, 5)],
        "queries are the last of the keys": [(2, 3, 5), (4, 1, 7), (3, 5, 5), (2, 6, 11), (3, 2, 1503), (2, 5, 4101)],
    }
    edges = {"one query and one key": [(2, 1), (1, 1, 1), (3, 1, 2)]}
    holds = {
        "Positions": ("test_queries_are_the_last", "test_one_query"),
        "Both sides": ("test_bias_grows",),
    }
    growth = {"queries": lambda n: (4, n, 50), "keys": lambda n: (4, 3, n), "heads": lambda n: (n, 3, 5)}
    timed = (8, 250, 300)
