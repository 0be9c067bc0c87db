"""What `alibi_slopes` and `alibi_bias` must do. The oracle follows the paper's code, number by number."""

from __future__ import annotations

import math

from dojo.contracts import Equivalent, GeneratorContract, KnownBugs


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


class TestAlibiBias(GeneratorContract):
    name = "alibi_bias"
    oracle = bias
    claims = {
        "bias grows with the distance in both directions": [(2, 3), (4, 7), (3, 5)],
        "queries are the last of the keys": [(2, 3, 5), (4, 1, 7), (3, 5, 5), (2, 6, 11), (3, 2, 1503), (2, 5, 4101)],
    }
    edges = {"one query and one key": [(2, 1), (1, 1, 1), (3, 1, 2)]}
    growth = {"queries": lambda n: (4, n, 50), "keys": lambda n: (4, 3, n), "heads": lambda n: (n, 3, 5)}
    timed = (8, 250, 300)


CLAIMS = {  # words of the statement, and the checks that hold them
    "alibi_slopes": "alibi_slopes",
    "alibi_bias": "alibi_bias",
    "Powers of two": "powers_of_two",
    "Other numbers": "other_numbers",
}

BUGS = KnownBugs(
    """
exponents from 0
    the series starts with its own ratio: the first slope of 8 heads is 1/2, not 1.
    ratio ** (head + 1)  →  ratio**head
the formula of powers of two for every number
    other numbers of heads follow the paper's code, which interleaves two series.
    power = 1 << (num_heads.bit_length() - 1)  →  power = num_heads
slopes of the next power of two, cut off
    the first slopes are those of the power below.
    power = 1 << (num_heads.bit_length() - 1)  →  power = 1 << (num_heads - 1).bit_length()
        return torch.tensor(geometric(power)[:num_heads])
every other slope from the second
    the remaining slopes are every other one of the next power's, from the first.
    geometric(2 * power)[0::2]  →  geometric(2 * power)[1::2]
the next slopes of the longer series in a row
    every other slope of the longer series is new; those between are there already.
    geometric(2 * power)[0::2]  →  geometric(2 * power)
slopes sorted
    the paper's code appends the additional slopes and leaves their order.
    torch.tensor(slopes,  →  torch.tensor(sorted(slopes, reverse=True),
the ratio 2^(-1)
    slopes span 8 powers of two, whatever the number of heads: the ratio is 2^(-8/heads).
    ratio = 2.0 ** (-8.0 / heads)  →  ratio = 2.0**-1.0
float64 slopes
    slopes and biases are float32.
    dtype=torch.float32  →  dtype=torch.float64
a bonus for distance
    the bias is a penalty: it is negative.
    return -alibi_slopes  →  return alibi_slopes
no absolute value
    keys behind the query get a penalty as well; the causal mask is another matter.
    (query[:, None] - key).abs()  →  query[:, None] - key
nothing for keys behind the query
    the distance counts in both directions.
    (query[:, None] - key).abs()  →  (query[:, None] - key).clamp(min=0)
keys behind the query set to minus infinity
    the causal mask is another matter: the bias is finite everywhere.
    -alibi_slopes(num_heads)[:, None, None] * distance
    →  (-alibi_slopes(num_heads)[:, None, None] * distance).masked_fill(query[:, None] < key, -torch.inf)
queries counted from 0
    with a cache the queries are the last of the keys: query i stands at k_len - q_len + i.
    torch.arange(q_len) + (k_len - q_len)  →  torch.arange(q_len)
k_len ignored
    the bias has one column for each key.
    key = torch.arange(k_len)  →  key = torch.arange(q_len) + (k_len - q_len)
distances in half precision
    float16 holds whole numbers up to 2,048 and bfloat16 up to 256: beyond, distances are rounded.
    (query[:, None] - key).abs()  →  (query[:, None] - key).abs().half()
distance squared
    the bias is linear in the distance: that is its name.
    (query[:, None] - key).abs()  →  (query[:, None] - key).square()
"""
)

EQUIVALENT = (
    Equivalent(r"num_heads > power.*→", "for a power of two the tail is empty."),
    Equivalent(r"dtype=torch.float32.*→", "floats make a float32 tensor."),
)
