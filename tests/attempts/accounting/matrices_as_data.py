from dataclasses import dataclass
from math import prod


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

    @property
    def kv(self) -> int:
        heads = self.num_heads if self.num_kv_heads is None else self.num_kv_heads
        return heads * (self.d_model // self.num_heads)


def matrices(config):
    d = config.d_model
    return {
        "qkvo": [(d, d), (d, config.kv), (d, config.kv), (d, d)],
        "ffn": [(d, config.d_ff)] * (3 if config.gated else 2),
    }


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
    return prod((2, config.num_layers, batch, seq_len, config.kv, bytes_per_element))
