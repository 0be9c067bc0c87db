"""The formulas one after the other."""

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


def parameter_count(config):
    d, head_dim = config.d_model, config.d_model // config.num_heads
    kv = (config.num_kv_heads or config.num_heads) * head_dim
    attention = d * d + d * kv + d * kv + d * d
    ffn = d * config.d_ff * (3 if config.gated else 2)
    total = config.num_layers * (attention + ffn + 2 * d) + d
    total += config.vocab_size * d
    if not config.tied:
        total += config.vocab_size * d
    return total


def forward_flops(config, seq_len, batch=1):
    d, n, layers = config.d_model, seq_len, config.num_layers
    head_dim = d // config.num_heads
    kv = (config.num_kv_heads or config.num_heads) * head_dim
    scores = mixing = 2 * n * n * head_dim * config.num_heads
    parts = {
        "qkvo": layers * (2 * n * d * d * 2 + 2 * n * d * kv * 2),
        "attention": layers * (scores + mixing),
        "ffn": layers * (3 if config.gated else 2) * 2 * n * d * config.d_ff,
        "lm_head": 2 * n * d * config.vocab_size,
    }
    parts = {name: batch * count for name, count in parts.items()}
    parts["total"] = sum(parts.values())
    return parts


def kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2):
    kv = (config.num_kv_heads or config.num_heads) * (config.d_model // config.num_heads)
    return config.num_layers * batch * seq_len * 2 * kv * bytes_per_element
