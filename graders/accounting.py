"""What the three counts must give. The oracle lists every matrix and every product of matrices, one by one."""

from __future__ import annotations

from math import prod
from typing import Any

from dojo.bugs import Bug, Equivalent
from dojo.contract import core, fast, robust
from dojo.expect import Draw, fail
from dojo.judge.proxy import Attempt

FIELDS = ("vocab_size", "d_model", "num_layers", "num_heads", "d_ff", "num_kv_heads", "gated", "tied")
DEFAULTS = {"num_kv_heads": None, "gated": True, "tied": False}
GPT2_XL = (50257, 1600, 48, 25, 6400)
GPT3 = {**dict(zip(FIELDS, (50000, 12288, 96, 96, 49152), strict=False)), "gated": False, "tied": True}
SMALL = {
    "every head its own keys": (13, 12, 2, 3, 7),
    "shared keys": (13, 24, 2, 6, 7, 2),
    "one key head": (17, 24, 3, 6, 5, 1),
    "not gated": (13, 12, 2, 3, 7, None, False),
    "tied": (13, 12, 2, 3, 7, None, True, True),
    "all at once": (17, 40, 5, 10, 11, 2, False, True),
    "one layer": (10, 4, 1, 2, 8),
}


def sizes(values: tuple | dict) -> dict[str, Any]:
    """All fields of a configuration by name."""
    return DEFAULTS | (dict(values) if isinstance(values, dict) else dict(zip(FIELDS, values, strict=False)))


def matrices(c: dict[str, Any]) -> dict[str, list[tuple[int, int]]]:
    """The weights of one layer by part, as (out, in)."""
    head = c["d_model"] // c["num_heads"]
    shared = (c["num_kv_heads"] or c["num_heads"]) * head
    d, ff = c["d_model"], c["d_ff"]
    return {"qkvo": [(d, d), (shared, d), (shared, d), (d, d)], "ffn": [(ff, d)] * (2 if c["gated"] else 1) + [(d, ff)]}


def parameters(c: dict[str, Any]) -> int:
    shapes: list[tuple[int, ...]] = [(c["vocab_size"], c["d_model"])] * (1 if c["tied"] else 2)
    for _ in range(c["num_layers"]):
        shapes += [*matrices(c)["qkvo"], *matrices(c)["ffn"], (c["d_model"],), (c["d_model"],)]
    return sum(map(prod, [*shapes, (c["d_model"],)]))


def flops(c: dict[str, Any], seq: int, batch: int) -> dict[str, int]:
    products: dict[str, list[tuple[int, int, int]]] = {"qkvo": [], "attention": [], "ffn": [], "lm_head": []}
    head = c["d_model"] // c["num_heads"]
    for _ in range(c["num_layers"]):
        for part, weights in matrices(c).items():
            products[part] += [(batch * seq, n_in, n_out) for n_out, n_in in weights]
        products["attention"] += [(seq, head, seq), (seq, seq, head)] * (batch * c["num_heads"])
    products["lm_head"] = [(batch * seq, c["d_model"], c["vocab_size"])]
    parts = {part: sum(2 * m * n * p for m, n, p in each) for part, each in products.items()}
    return parts | {"total": sum(parts.values())}


def cache(c: dict[str, Any], seq: int, batch: int, width: int) -> int:
    head = c["d_model"] // c["num_heads"]
    one_layer = [(batch, c["num_kv_heads"] or c["num_heads"], seq, head)] * 2
    return sum(map(prod, one_layer * c["num_layers"])) * width


def config(attempt: Attempt, c: dict[str, Any]) -> Any:
    """A Config of the attempt's own file, which stays in its process."""
    return attempt.Config.keep(**c)


def equal(got: object, expected: int, told: str, sentence: str) -> None:
    """One whole number, of type int."""
    if type(got) is not int or got != expected:
        fail(sentence, f"{told}: got {got!r}, expected {expected}")


def parts_equal(got: object, expected: dict[str, int], told: str) -> None:
    """Every part of the operations; a float is as good as an int where it is exact."""
    if not isinstance(got, dict):
        fail("forward_flops returns a dict", f"{told}: got a {type(got).__name__}")
    missing = [part for part in expected if part not in got]
    if missing:
        fail("forward_flops counts each part", f"{told}: no {', '.join(missing)} among {', '.join(map(str, got))}")
    for part, count in expected.items():
        value = got[part]
        if isinstance(value, bool) or not isinstance(value, (int, float)) or abs(value - count) > 1e-12 * count:
            fail(f"forward_flops counts `{part}` as products of 2mnp", f"{told}: got {value!r}, expected {count}")


def random_sizes(draw: Draw) -> dict[str, Any]:
    """A configuration of any kind."""
    pick = draw.random()
    kv_heads, group, head = pick.randint(1, 5), pick.randint(1, 4), pick.randint(1, 9)
    return {
        "vocab_size": pick.randint(2, 900),
        "d_model": kv_heads * group * head,
        "num_layers": pick.randint(1, 6),
        "num_heads": kv_heads * group,
        "d_ff": pick.randint(1, 99),
        "num_kv_heads": pick.choice([kv_heads, None]),
        "gated": pick.random() < 0.5,
        "tied": pick.random() < 0.5,
    }


class TestParameterCount:
    SENTENCE = "parameter_count is the number of parameters of the model"

    @core
    def test_every_weight_is_counted_once(self, attempt: Attempt) -> None:
        for told, values in SMALL.items():
            c = sizes(values)
            equal(attempt.parameter_count(config(attempt, c)), parameters(c), told, self.SENTENCE)

    @core
    def test_known_models_have_their_known_sizes(self, attempt: Attempt) -> None:
        for told, values in (("GPT-2 XL, gated", GPT2_XL), ("GPT-3", GPT3)):
            c = sizes(values)
            equal(attempt.parameter_count(config(attempt, c)), parameters(c), told, self.SENTENCE)
        short = attempt.Config.keep(*GPT2_XL)
        equal(attempt.parameter_count(short), parameters(sizes(GPT2_XL)), "Config with its defaults", self.SENTENCE)

    @robust
    def test_any_configuration(self, attempt: Attempt, draw: Draw) -> None:
        for number in range(20):
            c = random_sizes(Draw(draw.seed + number))
            equal(attempt.parameter_count(config(attempt, c)), parameters(c), str(c), self.SENTENCE)


class TestForwardFlops:
    @core
    def test_every_product_is_counted(self, attempt: Attempt) -> None:
        for told, values in SMALL.items():
            c = sizes(values)
            parts_equal(attempt.forward_flops(config(attempt, c), 5), flops(c, 5, 1), f"{told}, seq_len=5")

    @core
    def test_the_batch_multiplies_everything(self, attempt: Attempt) -> None:
        for told, values in SMALL.items():
            c, told = sizes(values), f"{told}, seq_len=7, batch=3"
            parts_equal(attempt.forward_flops(config(attempt, c), 7, 3), flops(c, 7, 3), told)
            parts_equal(attempt.forward_flops(config(attempt, c), 7, batch=3), flops(c, 7, 3), told)

    @core
    def test_known_models_have_their_known_costs(self, attempt: Attempt) -> None:
        for seq in (1024, 16384):
            c = sizes(GPT2_XL)
            got = attempt.forward_flops(config(attempt, c), seq)
            parts_equal(got, flops(c, seq, 1), f"GPT-2 XL, gated, seq_len={seq}")

    @robust
    def test_any_configuration(self, attempt: Attempt, draw: Draw) -> None:
        for number in range(20):
            c = random_sizes(Draw(draw.seed + number))
            got = attempt.forward_flops(config(attempt, c), number + 1, 3)
            parts_equal(got, flops(c, number + 1, 3), f"{c}, seq_len={number + 1}, batch=3")

    @fast
    def test_sizes_are_multiplied_and_not_counted_out(self, attempt: Attempt) -> None:
        c, long = sizes(SMALL["shared keys"]), 10**8  # the bytes of such scores still fit 64 bits
        parts_equal(attempt.forward_flops(config(attempt, c), long), flops(c, long, 1), f"seq_len={long}")


class TestKvCacheBytes:
    SENTENCE = "kv_cache_bytes is the size of the keys and values of all layers"

    @core
    def test_keys_and_values_of_all_layers(self, attempt: Attempt) -> None:
        for told, values in SMALL.items():
            c = sizes(values)
            equal(attempt.kv_cache_bytes(config(attempt, c), 5), cache(c, 5, 1, 2), told, self.SENTENCE)

    @core
    def test_batch_and_width_multiply(self, attempt: Attempt) -> None:
        c = sizes(SMALL["shared keys"])
        got = attempt.kv_cache_bytes(config(attempt, c), 7, 3)
        equal(got, cache(c, 7, 3, 2), "seq_len=7, batch=3 by position", self.SENTENCE)
        for batch, width in ((3, 2), (1, 4), (5, 1)):
            told = f"seq_len=7, batch={batch}, bytes_per_element={width}"
            by_place = attempt.kv_cache_bytes(config(attempt, c), 7, batch, width)
            by_name = attempt.kv_cache_bytes(config(attempt, c), 7, bytes_per_element=width, batch=batch)
            for got in (by_place, by_name):
                equal(got, cache(c, 7, batch, width), told, self.SENTENCE)

    @robust
    def test_any_configuration(self, attempt: Attempt, draw: Draw) -> None:
        for number in range(20):
            c = random_sizes(Draw(draw.seed + number))
            got = attempt.kv_cache_bytes(config(attempt, c), number + 1, 3, 4)
            equal(got, cache(c, number + 1, 3, 4), f"{c}, seq_len={number + 1}", self.SENTENCE)


BUGS = [
    Bug(
        "the third matrix of the gated layer forgotten",
        "SwiGLU has three matrices of d_model × d_ff.",
        "return (3 if config.gated else 2) * config.d_model * config.d_ff",
        "return 2 * config.d_model * config.d_ff",
    ),
    Bug(
        "three matrices for every layer",
        "without the gate there are two.",
        "return (3 if config.gated else 2) * config.d_model * config.d_ff",
        "return 3 * config.d_model * config.d_ff",
    ),
    Bug(
        "num_kv_heads ignored",
        "k_proj, v_proj and the cache have num_kv_heads · head_dim columns.",
        "kv_heads = config.num_heads if config.num_kv_heads is None else config.num_kv_heads",
        "kv_heads = config.num_heads",
    ),
    Bug(
        "tied embeddings counted twice",
        "tied, the embedding and the head are one matrix.",
        "tables = table if config.tied else 2 * table",
        "tables = 2 * table",
    ),
    Bug(
        "the head forgotten",
        "untied, the head is a matrix of its own.",
        "tables = table if config.tied else 2 * table",
        "tables = table",
    ),
    Bug(
        "norms forgotten",
        "each norm has a vector of d_model.",
        "norms = (2 * config.num_layers + 1) * config.d_model",
        "norms = 0",
    ),
    Bug(
        "the last norm forgotten",
        "a pre-norm model normalises once more at the end.",
        "norms = (2 * config.num_layers + 1) * config.d_model",
        "norms = 2 * config.num_layers * config.d_model",
    ),
    Bug(
        "biases counted",
        "the projections carry no bias.",
        "q_and_o = 2 * config.d_model * config.d_model",
        "q_and_o = 2 * config.d_model * (config.d_model + 1)",
    ),
    Bug(
        "attention counted once",
        "there are two products: queries by keys, and weights by values.",
        '"attention": config.num_layers * batch * 2 * (2 * seq_len * seq_len * config.d_model),',
        '"attention": config.num_layers * batch * (2 * seq_len * seq_len * config.d_model),',
    ),
    Bug(
        "attention halved for causality",
        "by convention the products are counted in full.",
        '"attention": config.num_layers * batch * 2 * (2 * seq_len * seq_len * config.d_model),',
        '"attention": config.num_layers * batch * seq_len * (seq_len + 1) * 2 * config.d_model,',
    ),
    Bug(
        "attention with key heads only",
        "every query head meets every key, however many heads share it.",
        '"attention": config.num_layers * batch * 2 * (2 * seq_len * seq_len * config.d_model),',
        '"attention": config.num_layers * batch * 2 * (2 * seq_len * seq_len * kv_dim(config)),',
    ),
    Bug(
        "attention of the batch as of one sequence",
        "tokens of different sequences never meet.",
        '"attention": config.num_layers * batch * 2 * (2 * seq_len * seq_len * config.d_model),',
        '"attention": config.num_layers * 2 * (2 * tokens * tokens * config.d_model),',
    ),
    Bug(
        "multiplications without additions",
        "a product of m×n by n×p costs 2mnp operations.",
        '"qkvo": 2 * tokens * config.num_layers * projection_weights(config),',
        '"qkvo": tokens * config.num_layers * projection_weights(config),',
    ),
    Bug(
        "the batch forgotten",
        "every sequence of the batch costs the same again.",
        "tokens = batch * seq_len",
        "tokens = seq_len",
    ),
    Bug(
        "the head for the last position only",
        "logits are computed at every position.",
        '"lm_head": 2 * tokens * config.d_model * config.vocab_size,',
        '"lm_head": 2 * batch * config.d_model * config.vocab_size,',
    ),
    Bug(
        "a tied head costs nothing",
        "tying saves memory, not operations: the product is computed all the same.",
        '"lm_head": 2 * tokens * config.d_model * config.vocab_size,',
        '"lm_head": 0 if config.tied else 2 * tokens * config.d_model * config.vocab_size,',
    ),
    Bug(
        "a total without the head",
        "the total is the sum of all parts.",
        'return flops | {"total": sum(flops.values())}',
        'return flops | {"total": sum(flops.values()) - flops["lm_head"]}',
    ),
    Bug(
        "keys without values in the cache",
        "both are kept.",
        "keys_and_values = 2 * config.num_layers * kv_dim(config)",
        "keys_and_values = config.num_layers * kv_dim(config)",
    ),
    Bug(
        "the cache of all query heads",
        "only key heads are kept: that is what grouped queries are for.",
        "keys_and_values = 2 * config.num_layers * kv_dim(config)",
        "keys_and_values = 2 * config.num_layers * config.d_model",
    ),
    Bug(
        "the cache of one layer",
        "every layer keeps keys and values of its own.",
        "keys_and_values = 2 * config.num_layers * kv_dim(config)",
        "keys_and_values = 2 * kv_dim(config)",
    ),
    Bug(
        "bytes_per_element ignored",
        "a quantised cache has one byte for each number, a float32 one four.",
        "return keys_and_values * batch * seq_len * bytes_per_element",
        "return keys_and_values * batch * seq_len * 2",
    ),
]

EQUIVALENT = (
    Equivalent(r"@dataclass.*→", "a Config that is not frozen computes the same."),
    Equivalent(r"num_kv_heads: int \| None.*→", "an annotation."),
)
