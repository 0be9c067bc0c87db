"""A generator of matrices, a Counter of their costs, and an OrderedDict as the result."""

from collections import Counter, OrderedDict
from math import prod

# with accounting/accounting/straight


def matrices(c):
    d, kv = c.d_model, c.d_model * (c.num_heads if c.num_kv_heads is None else c.num_kv_heads) // c.num_heads
    yield from [("qkvo", c.num_layers, (d, out)) for out in (d, kv, kv, d)]
    yield from [("ffn", c.num_layers, (d, c.d_ff))] * (2 + c.gated)
    yield "lm_head", 1, (d, c.vocab_size)


def parameter_count(config):
    n = sum(count * prod(shape) for _, count, shape in matrices(config))
    n += 0 if config.tied else config.vocab_size * config.d_model
    return n + (2 * config.num_layers + 1) * config.d_model


def forward_flops(config, seq_len, batch=1):
    found = Counter()
    for name, count, shape in matrices(config):
        found[name] += 2 * batch * seq_len * count * prod(shape)
    found["attention"] = 4 * batch * config.num_layers * seq_len**2 * config.d_model
    found["total"] = sum(found.values())
    return OrderedDict(found)


def kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2):
    _, keys, values, *_ = (shape[1] for _, _, shape in matrices(config))
    return bytes_per_element * batch * seq_len * config.num_layers * (keys + values)
