"""As the tables of Kaplan et al. and of Chinchilla's appendix F: costs for each token, then times the tokens."""

from dataclasses import dataclass
from fractions import Fraction


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


def shared(c):
    """The share of the query heads that has keys and values of its own."""
    return Fraction(c.num_kv_heads or c.num_heads, c.num_heads)


def non_embedding(c):
    """2 · d_model · n_layer · (2 · d_attn + d_ff) of the paper, for grouped heads and gates."""
    attention = 2 * c.d_model * c.d_model * (1 + shared(c))
    feed_forward = (2 + c.gated) * c.d_model * c.d_ff
    return int(attention * c.num_layers), feed_forward * c.num_layers


def parameter_count(config):
    n_vocab = config.vocab_size * config.d_model
    norms = config.d_model * (1 + 2 * config.num_layers)
    return sum(non_embedding(config)) + norms + n_vocab * (1 if config.tied else 2)


def forward_flops(config, seq_len, batch=1):
    attention, feed_forward = non_embedding(config)
    per_token = {
        "qkvo": 2 * attention,
        "attention": 2 * config.num_layers * seq_len * config.d_model * 2,  # logits, and their reduction
        "ffn": 2 * feed_forward,
        "lm_head": 2 * config.d_model * config.vocab_size,
    }
    per_token["total"] = sum(per_token.values())
    return {part: flops * seq_len * batch for part, flops in per_token.items()}


def kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2):
    per_token = 2 * config.num_layers * config.d_model * shared(config) * bytes_per_element
    return int(per_token) * seq_len * batch
