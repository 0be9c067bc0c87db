"""Accounting by measurement: one layer's weights and activations on the meta device, counted by numel and
by torch's FlopCounterMode. Nothing is allocated."""

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

    def __post_init__(self):
        kv = self.num_heads if self.num_kv_heads is None else self.num_kv_heads
        if min(self.vocab_size, self.d_model, self.num_layers, self.num_heads, self.d_ff, kv) < 1:
            raise ValueError(f"sizes must be positive, got {self}")
        if self.d_model % self.num_heads or self.num_heads % kv:
            raise ValueError(
                f"need num_heads | d_model and num_kv_heads | num_heads, got d_model={self.d_model}, "
                f"num_heads={self.num_heads}, num_kv_heads={kv}"
            )


def meta(*shape):
    return torch.empty(shape, device="meta", dtype=torch.float32)


def kv_heads(config):
    return config.num_kv_heads if config.num_kv_heads is not None else config.num_heads


def layer_weights(config):
    d, kv_width = config.d_model, kv_heads(config) * (config.d_model // config.num_heads)
    projections = [meta(d, d), meta(kv_width, d), meta(kv_width, d), meta(d, d)]
    ffn = [meta(config.d_ff, d)] * (2 if config.gated else 1)
    return projections, ffn, meta(d, config.d_ff), [meta(d), meta(d)]


def parameter_count(config):
    projections, up, down, norms = layer_weights(config)
    layer = sum(w.numel() for w in [*projections, *up, down, *norms])
    table = meta(config.vocab_size, config.d_model)
    tables = [table] if config.tied else [table, table]
    return config.num_layers * layer + sum(t.numel() for t in tables) + meta(config.d_model).numel()


def measured(work):
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), counter:
        work()
    return int(counter.get_total_flops())


def forward_flops(config, seq_len, batch=1):
    if seq_len <= 0 or batch <= 0:
        raise ValueError(f"seq_len={seq_len} and batch={batch} must be positive")
    projections, up, down, _ = layer_weights(config)
    x = meta(batch * seq_len, config.d_model)
    hidden = meta(batch * seq_len, config.d_ff)
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
    if seq_len < 0 or batch < 0 or bytes_per_element <= 0:
        raise ValueError(f"bad seq_len={seq_len}, batch={batch} or bytes_per_element={bytes_per_element}")
    cache = meta(2, config.num_layers, batch, kv_heads(config), seq_len, config.d_model // config.num_heads)
    return cache.numel() * bytes_per_element
