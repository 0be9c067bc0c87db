"""What the three recipes for frequencies must give. The oracle goes pair by pair, with decimals of 40 digits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from dojo.contracts import Draw, GeneratorContract

PI = Decimal("3.14159265358979323846264338327950288419716939937510")


def frequencies(d_k: int, theta: Decimal) -> list[Decimal]:
    return [(-Decimal(2 * i) / d_k * theta.ln()).exp() for i in range(d_k // 2)]


def between(value: Decimal) -> Decimal:
    return min(max(value, Decimal(0)), Decimal(1))


def ntk(d_k: int, theta: float, factor: float) -> list[float]:
    with localcontext(prec=40):
        grown = Decimal(theta) * (Decimal(d_k) / (d_k - 2) * Decimal(factor).ln()).exp()
        return [float(w) for w in frequencies(d_k, grown)]


def llama3(
    d_k: int, theta: float, factor: float, length: float, low_factor: float = 1.0, high_factor: float = 4.0
) -> list[float]:
    with localcontext(prec=40):
        found, low, high = [], Decimal(low_factor), Decimal(high_factor)
        for w in frequencies(d_k, Decimal(theta)):
            share = between((Decimal(length) * w / (2 * PI) - low) / (high - low))
            found.append(float(share * w + (1 - share) * w / Decimal(factor)))
        return found


def bound(d_k: int, theta: float, length: float, turns: float) -> Decimal:
    return d_k * (Decimal(length) / (2 * PI * Decimal(turns))).ln() / (2 * Decimal(theta).ln())


def yarn(
    d_k: int, theta: float, factor: float, length: float, beta_fast: float = 32.0, beta_slow: float = 1.0
) -> tuple[list[float], float]:
    with localcontext(prec=40):
        low = max(bound(d_k, theta, length, beta_fast).to_integral_value(ROUND_FLOOR), Decimal(0))
        high = min(bound(d_k, theta, length, beta_slow).to_integral_value(ROUND_CEILING), Decimal(d_k - 1))
        found = []
        for i, w in enumerate(frequencies(d_k, Decimal(theta))):
            share = between((i - low) / (high - low))
            found.append(float((1 - share) * w + share * w / Decimal(factor)))
        return found, float(Decimal("0.1") * Decimal(factor).ln() + 1)


class RecipeContract(GeneratorContract):
    ulps = 256.0  # a ramp in float32 is off by 1e-6, and what it leaves of a frequency may be a tenth of that
    off = {"test_no_tensor_is_much_larger_than_the_result": "a few numbers for each pair are no matter"}


def sizes(d: Draw, least: int = 1) -> Iterator[tuple]:
    """Twenty heads of any width, with bases, factors and lengths of their own."""
    pick = d.random()
    for _ in range(20):
        theta, factor = 10 ** pick.uniform(2, 6), pick.uniform(1.5, 12)
        yield 2 * pick.randint(least, 70), round(theta, 1), round(factor, 2), pick.randint(100, 20000)


REFUSED = {
    "an odd d_k is a ValueError": {(7, 100.0, 2.0, 64): (7,), (33, 1e4, 2.0, 64): (33,)},
    "theta of at most 1 is a ValueError": {(8, 1.0, 2.0, 64): (1.0,), (8, 0.25, 2.0, 64): (0.25,)},
    "a factor below 1 is a ValueError": {(8, 100.0, 0.5, 64): (0.5,), (8, 100.0, -2.0, 64): (-2.0,)},
}
LENGTHS = {"a length that is not positive is a ValueError": {(8, 1e2, 2.0, 0): (0,), (8, 1e2, 2.0, -64): (-64,)}}


class TestNtkFrequencies(RecipeContract):
    name = "ntk_frequencies"
    oracle = ntk
    claims = {
        "the base grows by a power of the factor": [
            (4, 100.0, 4.0),
            (8, 1e4, 4.0),
            (64, 1e4, 8.0),
            (128, 5e5, 2.5),
            (8, 1.5, 4.0),
        ],
        "a factor of 1 changes nothing": [(8, 1e4, 1.0), (64, 500.0, 1.0)],
    }
    edges = {"any sizes": lambda d: [each[:3] for each in sizes(d, least=2)]}
    refused = {name: {call[:3]: said for call, said in calls.items()} for name, calls in REFUSED.items()} | {
        "d_k below 4 is a ValueError": {(2, 100.0, 4.0): (2,)}
    }
    growth = {"d_k": lambda n: (2 * n, 1e4, 4.0)}


class TestLlama3Frequencies(RecipeContract):
    name = "llama3_frequencies"
    oracle = llama3
    claims = {
        "fast pairs are kept and slow ones divided": [
            *((8, 1e4, 8.0, 256), (16, 1e4, 8.0, 1000), (64, 1e4, 4.0, 2048), (128, 5e5, 8.0, 8192)),
        ],
        "the ramp lies between two numbers of turns": [
            *((16, 1e4, 8.0, 1000, 2.0, 9.0), (32, 300.0, 3.0, 700, 0.5, 20.0), (64, 1e4, 8.0, 4096, 1.5)),
        ],
        "a factor of 1 changes nothing": [(8, 1e4, 1.0, 256), (64, 500.0, 1.0, 4096)],
    }
    edges = {"any sizes": sizes, "one pair": [(2, 1e4, 4.0, 10), (2, 1e4, 4.0, 100), (2, 1e4, 4.0, 3)]}
    refused = (
        REFUSED
        | LENGTHS
        | {
            "factors out of order are a ValueError": {
                (8, 100.0, 2.0, 64, 4.0, 3.0): (4.0, 3.0),
                (8, 100.0, 2.0, 64, 2.5, 2.5): (2.5,),
                (8, 100.0, 2.0, 64, 5.0): (5.0,),
            }
        }
    )
    growth = {"d_k": lambda n: (2 * n, 1e4, 4.0, 1000)}


def gradable(d: Draw) -> list[tuple]:
    """Sizes with bounds in order, none of which is near to a whole number."""
    found = []
    for d_k, theta, factor, length in sizes(d, least=4):
        with localcontext(prec=40):
            ends = [float(bound(d_k, theta, length, turns)) for turns in (32, 1)]
        low, high = max(math.floor(ends[0]), 0), min(math.ceil(ends[1]), d_k - 1)
        if low < high and all(abs(end - round(end)) > 1e-3 for end in ends):
            found.append((d_k, theta, factor, length))
    return found


class TestYarnFrequencies(RecipeContract):
    name = "yarn_frequencies"
    results = ("frequencies", "attention_factor")
    oracle = yarn
    claims = {
        "fast pairs are kept and slow ones divided": [
            *((8, 1e4, 4.0, 64), (64, 1e4, 4.0, 2048), (128, 1e4, 16.0, 4096), (128, 1e6, 4.0, 32768)),
        ],
        "the ramp lies between two numbers of turns": [
            *((64, 1e4, 4.0, 2048, 16.0, 2.0), (32, 1e3, 8.0, 1000, 50.0, 0.5), (64, 5e5, 2.0, 4096, 8.0)),
        ],
        "bounds are rounded and clamped": [(8, 100.0, 4.0, 4096), (8, 10.0, 4.0, 419), (16, 1e4, 4.0, 100)],
        "a factor of 1 changes nothing": [(8, 1e4, 1.0, 64), (64, 500.0, 1.0, 2048)],
    }
    edges = {"any sizes": gradable}
    refused = (
        REFUSED
        | LENGTHS
        | {
            "betas out of order are a ValueError": {
                (8, 100.0, 2.0, 64, 2.0, 3.0): (2.0, 3.0),
                (8, 100.0, 2.0, 64, 1.5, 1.5): (1.5,),
                (8, 100.0, 2.0, 64, 0.75): (0.75,),
            }
        }
    )
    growth = {"d_k": lambda n: (2 * n, 1e4, 4.0, 1000)}
