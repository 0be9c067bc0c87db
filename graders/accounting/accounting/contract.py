"""What the three counts must give. The oracle lists every matrix and every product of matrices, one by one."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from dojo.contracts import Attempt, Draw, GeneratorContract, fail, fast


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
GPT2_XL = (50257, 1600, 48, 25, 6400)
GPT3 = (50000, 12288, 96, 96, 49152, None, False, True)
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


def random_sizes(d: Draw) -> list[tuple]:
    """Twenty configurations of any kind."""
    pick, found = d.random(), []
    for _ in range(20):
        kv_heads, group = pick.randint(1, 5), pick.randint(1, 4)
        width = kv_heads * group * pick.randint(1, 9)
        sizes = (pick.randint(2, 900), width, pick.randint(1, 6), kv_heads * group, pick.randint(1, 99))
        found.append((*sizes, pick.choice([kv_heads, None]), pick.random() < 0.5, pick.random() < 0.5))
    return found


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
    holds = {"Parameters": ("test_every_weight", "test_known_models", "test_any_configuration")}
    off = {"test_arguments_may_be_given_by_name": "its one argument stays in the worker's process"}
    claims = {
        "every weight is counted once": [(c,) for c in SMALL],
        "known models have their known sizes": [(GPT2_XL,), (GPT3,)],
    }
    edges = {"any configuration": lambda d: [(c,) for c in random_sizes(d)]}


class TestForwardFlops(CountContract):
    name = "forward_flops"
    oracle = flops
    holds = {
        "FLOPs": ("test_every_product", "test_the_batch", "test_known_models", "test_any_configuration"),
        "Cost": ("test_sizes_are_multiplied",),
    }
    claims = {
        "every product is counted": [(c, 5) for c in SMALL],
        "the batch multiplies everything": [(c, 7, 3) for c in SMALL],
        "known models have their known costs": [(GPT2_XL, 1024), (GPT2_XL, 16384)],
    }
    edges = {"any configuration": lambda d: [(c, seq, 3) for seq, c in enumerate(random_sizes(d), 1)]}

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
    holds = {"KV cache": ("test_keys_and_values", "test_batch_and_width", "test_any_configuration")}
    claims = {
        "keys and values of all layers": [(c, 5) for c in SMALL],
        "batch and width multiply": [(SHARED, 7, 3), (SHARED, 7, 3, 2), (SHARED, 7, 1, 4), (SHARED, 7, 5, 1)],
    }
    edges = {"any configuration": lambda d: [(c, seq, 3, 4) for seq, c in enumerate(random_sizes(d), 1)]}
