# %% [markdown]
# # Counting parameters, FLOPs and bytes
#
# $$\text{a product of } m \times n \text{ by } n \times p \text{ costs } 2mnp \text{ FLOPs}$$
#
# Before a model is trained, somebody asks: does it fit, how long does it take, how many users does a GPU serve? Work
# it out for the model of **lm**.
#
# **Given** is `Config`, its sizes. `num_kv_heads` None means `num_heads`. **Gated** means SwiGLU, three matrices of
# `d_model × d_ff`; otherwise there are two. **Tied** means that embedding and head are one matrix.
#
# **Write** three functions:
#
# - `parameter_count(config)`;
# - `forward_flops(config, seq_len, batch=1)`, a dict by part: `"qkvo"`, `"attention"`, `"ffn"`, `"lm_head"`, `"total"`;
# - `kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2)`.
#
# All results are exact whole numbers.
#
# **Example.** `Config(10, 4, 1, 2, 8)`: embedding and head $2 \cdot 10 \cdot 4 = 80$, projections $4 \cdot 16 = 64$,
# feed-forward $3 \cdot 4 \cdot 8 = 96$, norms $3 \cdot 4 = 12$: 252 parameters. For 5 tokens `qkvo` is
# $2 \cdot 5 \cdot 64 = 640$, `attention` $2 \cdot 2 \cdot 5 \cdot 5 \cdot 4 = 400$, `ffn` $2 \cdot 5 \cdot 96 = 960$,
# `lm_head` $2 \cdot 5 \cdot 40 = 400$, `total` 2400. The cache has $2 \cdot 5 \cdot 4 = 40$ numbers, 80 bytes. Llama 3
# 8B is `Config(128256, 4096, 32, 32, 14336, 8)`: 8,030,261,248 parameters.
#
# **Builds on** lm. **Sources:** Kaplan et al. 2020: Scaling laws for neural language models,
# [arXiv:2001.08361](https://arxiv.org/abs/2001.08361); Hoffmann et al. 2022: Training compute-optimal large language
# models, appendix F, [arXiv:2203.15556](https://arxiv.org/abs/2203.15556).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Parameters, FLOPs, KV cache, Cost</summary>
#
# - **Parameters.** Embedding and head, the four projections and the feed-forward matrices of each layer, two norms a
#   layer and one at the end, each a vector of `d_model`. No biases, none for positions. Keys and values have
#   `num_kv_heads * d_model / num_heads` columns.
# - **FLOPs.** Matrix products alone, of all layers. `qkvo` are the four projections. `attention` is queries by keys and
#   weights by values, of all heads, **in full**, not halved for causality. `lm_head` counts every position. Embedding,
#   norms, softmax and activations do not count.
# - **KV cache.** Keys **and** values of all layers.
# - **Cost.** Sizes are multiplied, not counted one by one.
#
# </details>

# %%
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


# %%
def parameter_count(config: Config) -> int:
    """The number of parameters, norms included. Kaplan et al. 2020, arXiv:2001.08361, table 1, without biases."""
    raise NotImplementedError


# %%
def forward_flops(config: Config, seq_len: int, batch: int = 1) -> dict[str, int]:
    """Floating-point operations of the matrix products in a forward pass, by part and in total."""
    raise NotImplementedError


# %%
def kv_cache_bytes(config: Config, seq_len: int, batch: int = 1, bytes_per_element: int = 2) -> int:
    """Bytes of the keys and values that decoding keeps for these tokens."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("accounting")
