"""nanoGPT's notebook of transformer sizes: an OrderedDict of parameters, and one of FLOPs."""

from collections import OrderedDict

# with accounting/accounting


def params(config):
    n_embd = config.d_model
    n_kv = config.num_kv_heads or config.num_heads
    out = OrderedDict()
    out["embedding"] = config.vocab_size * n_embd
    out["attention/ln"] = n_embd
    out["attention/kqv"] = n_embd * (n_embd + 2 * n_kv * (n_embd // config.num_heads))
    out["attention/proj"] = n_embd**2
    out["attention"] = out["attention/ln"] + out["attention/kqv"] + out["attention/proj"]
    out["mlp/ln"] = n_embd
    out["mlp/ffw"] = n_embd * config.d_ff * (2 if config.gated else 1)
    out["mlp/proj"] = config.d_ff * n_embd
    out["mlp"] = out["mlp/ln"] + out["mlp/ffw"] + out["mlp/proj"]
    out["block"] = out["attention"] + out["mlp"]
    out["transformer"] = config.num_layers * out["block"]
    out["ln_f"] = n_embd
    out["dense"] = 0 if config.tied else config.vocab_size * n_embd
    out["total"] = out["embedding"] + out["transformer"] + out["ln_f"] + out["dense"]
    return out


def parameter_count(config):
    return params(config)["total"]


def forward_flops(config, seq_len, batch=1):
    p, block_size, head_size = params(config), seq_len, config.d_model // config.num_heads
    out = OrderedDict()
    out["attention/kqv"] = 2 * block_size * p["attention/kqv"]
    out["attention/scores"] = 2 * block_size * block_size * config.d_model
    out["attention/reduce"] = 2 * config.num_heads * (block_size * block_size * head_size)
    out["attention/proj"] = 2 * block_size * p["attention/proj"]
    out["qkvo"] = config.num_layers * (out["attention/kqv"] + out["attention/proj"])
    out["attention"] = config.num_layers * (out["attention/scores"] + out["attention/reduce"])
    out["ffn"] = config.num_layers * 2 * block_size * (p["mlp/ffw"] + p["mlp/proj"])
    out["lm_head"] = 2 * block_size * (config.d_model * config.vocab_size)
    out["total"] = out["qkvo"] + out["attention"] + out["ffn"] + out["lm_head"]
    return {part: batch * count for part, count in out.items()}


def kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2):
    n_kv = config.num_kv_heads or config.num_heads
    head_size = config.d_model // config.num_heads
    return 2 * config.num_layers * n_kv * head_size * seq_len * batch * bytes_per_element
