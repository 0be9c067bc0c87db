"""Every matrix product as a triple (m, n, p), summed at the end."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Config:
    vocab_size: int
    d_model: int
    num_layers: int
    num_heads: int
    d_ff: int
    num_kv_heads: int | None = None
    gated: bool = True
    tied: bool = False


def kv_width(c):
    return c.d_model // c.num_heads * (c.num_kv_heads or c.num_heads)


def shapes(c):
    """(in, out) of every matrix of one layer, by part."""
    d, kv = c.d_model, kv_width(c)
    up = [(d, c.d_ff)] * (2 if c.gated else 1)
    return {"qkvo": [(d, d), (d, kv), (d, kv), (d, d)], "ffn": [*up, (c.d_ff, d)]}


def parameter_count(config):
    weights = sum(a * b for part in shapes(config).values() for a, b in part)
    norms = 2 * config.d_model
    tables = config.vocab_size * config.d_model * (1 if config.tied else 2)
    return config.num_layers * (weights + norms) + config.d_model + tables


def cost(products):
    return sum(2 * m * n * p for m, n, p in products)


def forward_flops(config, seq_len, batch=1):
    t, layers, size = seq_len, range(config.num_layers), config.d_model // config.num_heads
    heads = [(t, size, t), (t, t, size)] * config.num_heads
    found = {name: cost((t, a, b) for _ in layers for a, b in part) * batch for name, part in shapes(config).items()}
    found["attention"] = config.num_layers * cost(heads) * batch
    found["lm_head"] = cost([(t, config.d_model, config.vocab_size)]) * batch
    found["total"] = found["qkvo"] + found["ffn"] + found["attention"] + found["lm_head"]
    return found


def kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2):
    elements = [batch * seq_len * kv_width(config) for _ in ("keys", "values") for _ in range(config.num_layers)]
    return sum(elements) * bytes_per_element
