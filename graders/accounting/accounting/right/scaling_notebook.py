"""As nanoGPT's notebook on scaling laws: an ordered table of parameters, one of operations, by the name of each part."""

from collections import OrderedDict
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


def sizes(config):
    head_size = config.d_model // config.num_heads
    n_kv = config.num_heads if config.num_kv_heads is None else config.num_kv_heads
    return config.d_model, config.num_layers, head_size, n_kv * head_size


def params(config):
    n_embd, n_layer, _, n_kv_embd = sizes(config)
    out = OrderedDict()
    out["embedding"] = config.vocab_size * n_embd
    out["attention/ln"] = n_embd
    out["attention/kqv"] = n_embd * (n_embd + 2 * n_kv_embd)
    out["attention/proj"] = n_embd**2
    out["attention"] = out["attention/ln"] + out["attention/kqv"] + out["attention/proj"]
    out["mlp/ln"] = n_embd
    out["mlp/ffw"] = n_embd * config.d_ff * (2 if config.gated else 1)
    out["mlp/proj"] = config.d_ff * n_embd
    out["mlp"] = out["mlp/ln"] + out["mlp/ffw"] + out["mlp/proj"]
    out["block"] = out["attention"] + out["mlp"]
    out["transformer"] = n_layer * out["block"]
    out["ln_f"] = n_embd
    out["dense"] = 0 if config.tied else config.vocab_size * n_embd
    out["total"] = out["embedding"] + out["transformer"] + out["ln_f"] + out["dense"]
    return out


def parameter_count(config):
    return params(config)["total"]


def forward_flops(config, seq_len, batch=1):
    n_embd, n_layer, head_size, n_kv_embd = sizes(config)
    block_size, n_head = seq_len, config.num_heads
    out = OrderedDict()
    out["attention/kqv"] = 2 * block_size * (n_embd * (n_embd + 2 * n_kv_embd))
    out["attention/scores"] = 2 * block_size * block_size * n_embd
    out["attention/reduce"] = 2 * n_head * (block_size * block_size * head_size)
    out["attention/proj"] = 2 * block_size * (n_embd * n_embd)
    out["mlp/ffw"] = 2 * block_size * (n_embd * config.d_ff) * (2 if config.gated else 1)
    out["mlp/proj"] = 2 * block_size * (config.d_ff * n_embd)
    flops = {
        "qkvo": n_layer * (out["attention/kqv"] + out["attention/proj"]),
        "attention": n_layer * (out["attention/scores"] + out["attention/reduce"]),
        "ffn": n_layer * (out["mlp/ffw"] + out["mlp/proj"]),
        "lm_head": 2 * block_size * (n_embd * config.vocab_size),
    }
    flops = {part: batch * count for part, count in flops.items()}
    flops["total"] = sum(flops.values())
    return flops


def kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2):
    _, n_layer, _, n_kv_embd = sizes(config)
    return batch * seq_len * n_layer * 2 * n_kv_embd * bytes_per_element
