# table of matrices, list comprehensions, Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    """The sizes of a language model as in the kata lm."""

    vocab_size: int
    d_model: int
    num_layers: int
    num_heads: int
    d_ff: int
    num_kv_heads: int | None = None
    gated: bool = True
    tied: bool = False


from collections import Counter, OrderedDict
from math import prod


def matrices(c):
    n_kv = c.num_heads if c.num_kv_heads is None else c.num_kv_heads
    kv = n_kv * c.d_model // c.num_heads
    d = c.d_model
    yield from [("qkvo", c.num_layers, (d, o)) for o in (d, kv, kv, d)]
    yield from [("ffn", c.num_layers, (d, c.d_ff))] * (2 + c.gated)
    yield "lm_head", 1, (d, c.vocab_size)


def parameter_count(config):
    n = sum(k * prod(s) for _, k, s in matrices(config))
    n += 0 if config.tied else config.vocab_size * config.d_model
    return n + (2 * config.num_layers + 1) * config.d_model


def forward_flops(config, seq_len, batch=1):
    f = Counter()
    for name, k, s in matrices(config):
        f[name] += 2 * batch * seq_len * k * prod(s)
    f["attention"] = (
        4 * batch * config.num_layers * config.num_heads * seq_len**2 * (config.d_model // config.num_heads)
    )
    f["total"] = sum(f.values())
    return OrderedDict(f)


def kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2):
    return (
        bytes_per_element * batch * seq_len * config.num_layers * sum(s[1] for n, _, s in list(matrices(config))[1:3])
    )
