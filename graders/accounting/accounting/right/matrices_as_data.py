"""The shapes of a layer's matrices as data, products of them by math.prod."""

from math import prod

# with accounting/accounting/straight


def kv_dim(config):
    heads = config.num_heads if config.num_kv_heads is None else config.num_kv_heads
    return heads * (config.d_model // config.num_heads)


def matrices(config):
    d, kv = config.d_model, kv_dim(config)
    ffn = [(d, config.d_ff)] * (3 if config.gated else 2)
    return {"qkvo": [(d, d), (d, kv), (d, kv), (d, d)], "ffn": ffn}


def parameter_count(config: Config) -> int:
    layer = sum(prod(shape) for shapes in matrices(config).values() for shape in shapes) + 2 * config.d_model
    tables = (2 - config.tied) * config.vocab_size * config.d_model
    return layer * config.num_layers + config.d_model + tables


def forward_flops(config: Config, seq_len: int, batch: int = 1) -> dict:
    rows = seq_len * batch
    cost = {k: config.num_layers * sum(2 * rows * prod(s) for s in v) for k, v in matrices(config).items()}
    cost["attention"] = 4 * batch * config.num_layers * seq_len**2 * config.d_model
    cost["lm_head"] = 2 * rows * config.d_model * config.vocab_size
    return {**cost, "total": sum(cost.values())}


def kv_cache_bytes(config: Config, seq_len: int, batch: int = 1, bytes_per_element: int = 2) -> int:
    return prod((2, config.num_layers, batch, seq_len, kv_dim(config), bytes_per_element))
