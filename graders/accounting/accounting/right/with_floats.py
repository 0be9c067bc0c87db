"""Sizes by torch.Size.numel; the operations are floats, which hold these whole numbers exactly."""

import torch

# with accounting/accounting/straight


def kv_width(c):
    kv_heads = c.num_heads if c.num_kv_heads is None else c.num_kv_heads
    return kv_heads * c.d_model // c.num_heads


def parameter_count(config):
    c = config
    shapes = [(c.vocab_size, c.d_model)] * (1 if c.tied else 2) + [(c.d_model,)]
    per_layer = [(c.d_model, c.d_model)] * 2 + [(kv_width(c), c.d_model)] * 2
    per_layer += [(c.d_ff, c.d_model)] * (3 if c.gated else 2) + [(c.d_model,)] * 2
    return sum(torch.Size(s).numel() for s in shapes + per_layer * c.num_layers)


def forward_flops(config, seq_len, batch=1):
    c, n = config, float(seq_len * batch)
    out = dict(
        qkvo=c.num_layers * 2.0 * n * (2 * c.d_model**2 + 2 * c.d_model * kv_width(c)),
        attention=c.num_layers * 4.0 * n * seq_len * c.d_model,
        ffn=c.num_layers * 2.0 * n * c.d_model * c.d_ff * (3 if c.gated else 2),
        lm_head=2.0 * n * c.d_model * c.vocab_size,
    )
    return out | {"total": sum(out.values())}


def kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2):
    return 2 * config.num_layers * kv_width(config) * seq_len * batch * bytes_per_element
