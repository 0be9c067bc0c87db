"""What the three counts must give. The oracle lists every matrix and every product of matrices, one by one."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from dojo.contracts import Attempt, GeneratorContract, fail, fast


class Config(NamedTuple):
    vocab_size: int
    d_model: int
    num_layers: int
    num_heads: int
    d_ff: int
    num_kv_heads: int | None = None
    gated: bool = True
    tied: bool = False


SHARED = (13, 24, 2, 6, 7, 2)
SMALL = [
    *((10, 4, 1, 2, 8), (13, 12, 2, 3, 7), SHARED, (17, 24, 3, 6, 5, 1), (13, 12, 2, 3, 7, None, False)),
    *((13, 12, 2, 3, 7, None, True, True), (17, 40, 5, 10, 11, 2, False, True)),
]


def matrices(c: Config) -> dict[str, list[tuple[int, int]]]:
    """The weights of one layer by part, as (out, in)."""
    d, shared = c.d_model, (c.num_kv_heads or c.num_heads) * (c.d_model // c.num_heads)
    up = [(c.d_ff, d)] * (2 if c.gated else 1)
    return {"qkvo": [(d, d), (shared, d), (shared, d), (d, d)], "ffn": [*up, (d, c.d_ff)]}


def parameters(sizes: tuple) -> int:
    c = Config(*sizes)
    shapes: list[tuple[int, ...]] = [(c.vocab_size, c.d_model)] * (1 if c.tied else 2)
    for _ in range(c.num_layers):
        shapes += [*matrices(c)["qkvo"], *matrices(c)["ffn"], (c.d_model,), (c.d_model,)]
    return sum(map(prod, [*shapes, (c.d_model,)]))


def flops(sizes: tuple, seq: int, batch: int = 1) -> dict[str, int]:
    c = Config(*sizes)
    head, scores = c.d_model // c.num_heads, batch * c.num_heads
    products: dict[str, list[tuple[int, int, int]]] = {"qkvo": [], "attention": [], "ffn": []}
    for _ in range(c.num_layers):
        for part, weights in matrices(c).items():
            products[part] += [(batch * seq, n_in, n_out) for n_out, n_in in weights]
        products["attention"] += [(seq, head, seq), (seq, seq, head)] * scores
    products["lm_head"] = [(batch * seq, c.d_model, c.vocab_size)]
    parts = {part: sum(2 * m * n * p for m, n, p in each) for part, each in products.items()}
    return parts | {"total": sum(parts.values())}


def cache(sizes: tuple, seq: int, batch: int = 1, width: int = 2) -> int:
    c = Config(*sizes)
    one_layer = [(batch, c.num_kv_heads or c.num_heads, seq, c.d_model // c.num_heads)] * 2
    return sum(map(prod, one_layer * c.num_layers)) * width


class CountContract(GeneratorContract):
    by_position = 1

    def arguments(self, attempt: Attempt, call: tuple) -> tuple:
        """With a Config of the attempt's own file, which stays in its process."""
        sizes, *others = call
        options = dict(zip(Config._fields[5:], sizes[5:], strict=False))
        return attempt.Config.keep(*sizes[:5], **options), *others


class TestParameterCount(CountContract):
    name = "parameter_count"
    oracle = parameters
    holds = {"Parameters": ("test_every_weight",)}
    off = {"test_arguments_may_be_given_by_name": "its one argument stays in the worker's process"}
    claims = {"every weight is counted once": [(c,) for c in SMALL]}


class TestForwardFlops(CountContract):
    name = "forward_flops"
    oracle = flops
    holds = {
        "FLOPs": ("test_every_product", "test_the_batch"),
        "Cost": ("test_sizes_are_multiplied",),
    }
    claims = {
        "every product is counted": [(c, 5) for c in SMALL],
        "the batch multiplies everything": [(c, 7, 3) for c in SMALL],
    }

    def agrees(self, attempt: Attempt, claim: str, call: tuple, got: Any = None, by_name: int = 0) -> None:
        """Part by part; a float is as good as an int where it is exact."""
        sent, count = self.arguments(attempt, call), len(call) - by_name
        named = dict(zip(self.signature.inputs[count:], sent[count:], strict=False))
        got = attempt.forward_flops(*sent[:count], **named)
        if not isinstance(got, dict):
            fail("forward_flops returns a dict", f"got a {type(got).__name__}")
        for part, exact in flops(*call).items():
            if got.get(part) != exact or isinstance(got[part], bool):
                seen = f"forward_flops{call}: got {got.get(part)!r}, expected {exact}"
                fail(f"forward_flops counts `{part}` as products of 2mnp", seen)

    @fast
    def test_sizes_are_multiplied_and_not_counted_out(self, attempt: Attempt) -> None:
        self.agrees(attempt, "", (SHARED, 10**8))  # the bytes of such scores still fit 64 bits


class TestKvCacheBytes(CountContract):
    name = "kv_cache_bytes"
    oracle = cache
    holds = {"KV cache": ("test_keys_and_values", "test_batch_and_width")}
    claims = {
        "keys and values of all layers": [(c, 5) for c in SMALL],
        "batch and width multiply": [(SHARED, 7, 3), (SHARED, 7, 3, 2), (SHARED, 7, 1, 4), (SHARED, 7, 5, 1)],
    }
