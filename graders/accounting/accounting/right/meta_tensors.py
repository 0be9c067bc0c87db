"""Measured, not derived: one layer on the meta device, counted by numel and by torch's FlopCounterMode."""

from dataclasses import dataclass

import torch
from torch.utils.flop_counter import FlopCounterMode


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


def meta(*shape):
    return torch.empty(shape, device="meta", dtype=torch.float32)


def kv_heads(config):
    return config.num_kv_heads if config.num_kv_heads is not None else config.num_heads


def layer_weights(config):
    d, kv_width = config.d_model, kv_heads(config) * (config.d_model // config.num_heads)
    projections = [meta(d, d), meta(kv_width, d), meta(kv_width, d), meta(d, d)]
    return projections, [meta(config.d_ff, d)] * (2 if config.gated else 1), meta(d, config.d_ff)


def parameter_count(config):
    projections, up, down = layer_weights(config)
    norm, table = meta(config.d_model), meta(config.vocab_size, config.d_model)
    layer = sum(w.numel() for w in [*projections, *up, down, norm, norm])
    return config.num_layers * layer + (1 if config.tied else 2) * table.numel() + norm.numel()


def measured(work):
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        work()
    return int(counter.get_total_flops())


def forward_flops(config, seq_len, batch=1):
    projections, up, down = layer_weights(config)
    x, hidden = meta(batch * seq_len, config.d_model), meta(batch * seq_len, config.d_ff)
    q = meta(batch * config.num_heads, seq_len, config.d_model // config.num_heads)
    weights = meta(batch * config.num_heads, seq_len, seq_len)
    flops = {
        "qkvo": config.num_layers * measured(lambda: [x @ w.T for w in projections]),
        "attention": config.num_layers * measured(lambda: (q @ q.mT, weights @ q)),
        "ffn": config.num_layers * measured(lambda: [x @ w.T for w in up] + [hidden @ down.T]),
        "lm_head": measured(lambda: x @ meta(config.vocab_size, config.d_model).T),
    }
    return flops | {"total": sum(flops.values())}


def kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2):
    cache = meta(2, config.num_layers, batch, kv_heads(config), seq_len, config.d_model // config.num_heads)
    return cache.numel() * bytes_per_element
