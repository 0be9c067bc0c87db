# Kv_cache_bytes takes bytes_per_element before batch: a third positional argument is not the batch.
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


def kv_dim(c):
    return (c.num_heads if c.num_kv_heads is None else c.num_kv_heads) * (c.d_model // c.num_heads)


def attn(c):
    return 2 * c.d_model * c.d_model + 2 * c.d_model * kv_dim(c)


def ffn(c):
    return (3 if c.gated else 2) * c.d_model * c.d_ff


def parameter_count(config):
    c = config
    embed = (1 if c.tied else 2) * c.vocab_size * c.d_model
    return embed + c.num_layers * (attn(c) + ffn(c) + 2 * c.d_model) + c.d_model


def forward_flops(config, seq_len, batch=1):
    c = config
    tokens = seq_len * batch
    out = {
        "qkvo": 2 * tokens * c.num_layers * attn(c),
        "attention": 4 * batch * c.num_layers * seq_len * seq_len * c.d_model,
        "ffn": 2 * tokens * c.num_layers * ffn(c),
        "lm_head": 2 * tokens * c.d_model * c.vocab_size,
    }
    out["total"] = sum(out.values())
    return out


def kv_cache_bytes(config, seq_len, bytes_per_element=2, batch=1):
    return 2 * config.num_layers * seq_len * batch * kv_dim(config) * bytes_per_element
