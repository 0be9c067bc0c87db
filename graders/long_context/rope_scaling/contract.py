"""What the three recipes for frequencies must give. The oracle goes pair by pair, in Python's numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from dojo.contracts import Draw, GeneratorContract


def ntk(d_k: int, theta: float, factor: float) -> list[float]:
    """The share of the factor by which a pair is slowed grows from 0 to 1."""
    return [theta ** (-2 * i / d_k) * factor ** (-2 * i / (d_k - 2)) for i in range(d_k // 2)]


def llama3(
    d_k: int, theta: float, factor: float, length: float, low_factor: float = 1.0, high_factor: float = 4.0
) -> list[float]:
    """By wavelengths, in three branches."""
    found = []
    for i in range(d_k // 2):
        w = theta ** (-2 * i / d_k)
        wavelength = 2 * math.pi / w
        if length / high_factor < wavelength < length / low_factor:
            share = (length / wavelength - low_factor) / (high_factor - low_factor)
            w = share * w + (1 - share) * w / factor
        elif wavelength >= length / low_factor:
            w /= factor
        found.append(w)
    return found


def turns(d_k: int, theta: float, length: float) -> list[float]:
    """How often each pair rotates, were there as many as dimensions."""
    return [length * theta ** (-2 * i / d_k) / (2 * math.pi) for i in range(d_k)]


def bounds(d_k: int, theta: float, length: float, beta_fast: float = 32.0, beta_slow: float = 1.0) -> tuple[int, int]:
    """The last pair that rotates as often as the fast bound, and the first that rotates as seldom as the slow one."""
    often = [i for i, r in enumerate(turns(d_k, theta, length)) if r >= beta_fast]
    seldom = [i for i, r in enumerate(turns(d_k, theta, length)) if r <= beta_slow]
    return max([0, *often]), min([d_k - 1, *seldom])


def yarn(
    d_k: int, theta: float, factor: float, length: float, beta_fast: float = 32.0, beta_slow: float = 1.0
) -> tuple[list[float], float]:
    low, high = bounds(d_k, theta, length, beta_fast, beta_slow)
    shares = [min(max((i - low) / (high - low), 0.0), 1.0) for i in range(d_k // 2)]
    found = [theta ** (-2 * i / d_k) * (1 - share * (1 - 1 / factor)) for i, share in enumerate(shares)]
    return found, 0.1 * math.log(factor) + 1


def sizes(d: Draw) -> Iterator[tuple]:
    """Twenty heads of any width, with bases, factors and lengths of their own."""
    pick = d.random()
    for _ in range(20):
        theta, factor = 10 ** pick.uniform(2, 6), pick.uniform(1.5, 12)
        yield 2 * pick.randint(4, 70), round(theta, 1), round(factor, 2), pick.randint(100, 20000)


def in_order(d: Draw) -> Iterator[tuple]:
    """Those whose bounds are in order, and not so near to a whole number that rounding says which."""
    for d_k, theta, factor, length in sizes(d):
        clear = all(abs(r - beta) > 1e-4 * beta for r, beta in product(turns(d_k, theta, length), (1, 32)))
        low, high = bounds(d_k, theta, length)
        if clear and low < high:
            yield d_k, theta, factor, length


class RecipeContract(GeneratorContract):
    ulps = 256.0  # a ramp in float32 is off by 1e-6, and what it leaves of a frequency may be a tenth of that
    off = {"test_no_tensor_is_much_larger_than_the_result": "a few numbers for each pair are no matter"}
    holds = {
        "Frequencies": ("test_fast_pairs", "test_the_ramp", "test_any_sizes", "test_a_default"),
        "Errors": ("test_an_odd", "test_a_factor"),
    }


REFUSED = {
    "an odd d_k is a ValueError": {(7, 100.0, 2.0, 64): (7,), (33, 1e4, 2.0, 64): (33,)},
    "a factor below 1 is a ValueError": {(8, 100.0, 0.5, 64): (0.5,)},
}


class TestNtkFrequencies(RecipeContract):
    name = "ntk_frequencies"
    oracle = ntk
    claims = {
        "the base grows by a power of the factor": [(4, 100.0, 4.0), (64, 1e4, 8.0), (128, 5e5, 2.5), (8, 1e4, 1.0)],
        "any sizes are taken": lambda d: [each[:3] for each in sizes(d)],
    }
    refused = {name: {call[:3]: said for call, said in calls.items()} for name, calls in REFUSED.items()}
    holds = RecipeContract.holds | {"Frequencies": ("test_the_base", "test_any_sizes", "test_a_default")}


class TestLlama3Frequencies(RecipeContract):
    name = "llama3_frequencies"
    oracle = llama3
    claims = {
        "fast pairs are kept and slow ones divided": [(8, 1e4, 8.0, 256), (64, 1e4, 4.0, 2048), (128, 5e5, 8.0, 8192)],
        "the ramp lies between two numbers of turns": [(16, 1e4, 8.0, 1000, 2.0, 9.0), (64, 1e4, 8.0, 4096, 1.5)],
        "any sizes are taken": sizes,
    }
    refused = REFUSED


class TestYarnFrequencies(RecipeContract):
    name = "yarn_frequencies"
    results = ("frequencies", "attention_factor")
    oracle = yarn
    claims = {
        "fast pairs are kept and slow ones divided": [(8, 1e4, 4.0, 64), (64, 1e4, 4.0, 2048), (128, 1e6, 4.0, 32768)],
        "the ramp lies between two numbers of turns": [(64, 1e4, 4.0, 2048, 16.0, 2.0), (32, 1e3, 8.0, 1000, 50.0)],
        "bounds are rounded and clamped": [(8, 100.0, 4.0, 4096), (8, 10.0, 4.0, 419), (16, 1e4, 4.0, 100)],
        "any sizes are taken": in_order,
    }
    refused = REFUSED
    holds = RecipeContract.holds | {"Bounds": ("test_bounds",)}
