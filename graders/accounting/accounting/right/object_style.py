"""The arithmetic as methods of the configuration, functions that call them."""

import dataclasses
from functools import cached_property


@dataclasses.dataclass(frozen=True)
class Config:
    vocab_size: int
    d_model: int
    num_layers: int
    num_heads: int
    d_ff: int
    num_kv_heads: int | None = None
    gated: bool = True
    tied: bool = False

    @cached_property
    def kv_dim(self) -> int:
        heads = self.num_heads if self.num_kv_heads is None else self.num_kv_heads
        return self.d_model * heads // self.num_heads

    @cached_property
    def projections(self) -> int:
        """Weights of q, k, v and o in one layer."""
        return 2 * self.d_model * (self.d_model + self.kv_dim)

    @cached_property
    def feed_forward(self) -> int:
        return (2 + self.gated) * self.d_model * self.d_ff

    @cached_property
    def table(self) -> int:
        return self.vocab_size * self.d_model


def parameter_count(config):
    layer = config.projections + config.feed_forward + 2 * config.d_model
    return config.num_layers * layer + config.d_model + (2 - config.tied) * config.table


def forward_flops(config, seq_len, batch=1):
    tokens = batch * seq_len
    flops = dict(
        qkvo=2 * tokens * config.num_layers * config.projections,
        attention=4 * tokens * seq_len * config.d_model * config.num_layers,
        ffn=2 * tokens * config.num_layers * config.feed_forward,
        lm_head=2 * tokens * config.table,
    )
    return {**flops, "total": sum(flops.values())}


def kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2):
    return 2 * config.num_layers * config.kv_dim * batch * seq_len * bytes_per_element
