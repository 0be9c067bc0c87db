# %% [markdown]
# # Counting parameters, operations and bytes
#
# $$\text{a product of } m \times n \text{ by } n \times p \text{ costs } 2mnp \text{ operations}$$
#
# Before a model is trained, somebody has asked: does it fit, how long does it take, how many users can a device
# serve? The answers are products of a handful of sizes. Here you work them out for the language model of the kata
# **lm**.
#
# **Given** is `Config(vocab_size, d_model, num_layers, num_heads, d_ff, num_kv_heads=None, gated=True, tied=False)`.
# Leave it as it is. `num_kv_heads` None means `num_heads`. **Gated** means SwiGLU, with three matrices of
# `d_model × d_ff`; otherwise there are two. **Tied** means that embedding and head are one matrix.
#
# **Write** three functions:
#
# - **`parameter_count(config)`**: the number of parameters, an `int`. Embedding, head, the four projections and the
#   feed-forward matrices of each layer, two norms for each layer and one at the end, each a vector of `d_model`. No
#   biases, no parameters for positions.
# - **`forward_flops(config, seq_len, batch=1)`**: the operations of one forward pass, a dict of numbers:
#   - `"qkvo"`: the four projections of all layers;
#   - `"attention"`: queries by keys and weights by values, of all heads and layers, **in full**, not halved for
#     causality;
#   - `"ffn"`: the feed-forward matrices of all layers;
#   - `"lm_head"`: the projection to the vocabulary, at every position;
#   - `"total"`: their sum. Embedding, norms, softmax and activations are not counted.
# - **`kv_cache_bytes(config, seq_len, batch=1, bytes_per_element=2)`**: the bytes of keys **and** values of all
#   layers, an `int`.
#
# All results are exact whole numbers. `head_dim` is `d_model / num_heads`, and keys and values have
# `num_kv_heads * head_dim` columns.
#
# - **Sizes are multiplied,** not counted one by one: 100 million tokens take no longer than one.
# - **Not graded:** floats in the dict that are exact, further entries of the dict, and sizes that do not divide.
#
# **Known answers.** The shape of GPT-2 XL, `Config(50257, 1600, 48, 25, 6400)`: 2.127 billion parameters, 8.51 GB in
# float32, 4.51 TFLOP forward at 1,024 tokens; at 16,384 tokens attention passes half of the total. The shape of GPT-3,
# `Config(50000, 12288, 96, 96, 49152, gated=False, tied=True)`: 175 billion.
#
# **Example.** `Config(10, 4, 1, 2, 8)`: embedding and head $2 \cdot 10 \cdot 4 = 80$, projections $4 \cdot 16 = 64$,
# feed-forward $3 \cdot 4 \cdot 8 = 96$, norms $3 \cdot 4 = 12$: 252 parameters. For 5 tokens `qkvo` is
# $2 \cdot 5 \cdot 64 = 640$, `attention` $2 \cdot 2 \cdot 5 \cdot 5 \cdot 4 = 400$, `ffn` $2 \cdot 5 \cdot 96 = 960$,
# `lm_head` $2 \cdot 5 \cdot 40 = 400$, `total` 2400. The cache has $2 \cdot 5 \cdot 4 = 40$ numbers, 80 bytes.
#
# **Builds on** lm. **Sources:** Kaplan et al. 2020: Scaling laws for neural language models,
# [arXiv:2001.08361](https://arxiv.org/abs/2001.08361); Hoffmann et al. 2022: Training compute-optimal large language
# models, appendix F, [arXiv:2203.15556](https://arxiv.org/abs/2203.15556).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# vocab_size, d_model, num_layers, num_heads, d_ff, tokens = 10, 4, 1, 2, 8, 5
# projections, feed_forward = 4 * d_model**2, 3 * d_model * d_ff
# print("parameters", 2 * vocab_size * d_model + num_layers * (projections + feed_forward + 2 * d_model) + d_model)
# operations = {
#     "qkvo": 2 * tokens * projections,
#     "attention": 2 * 2 * tokens * tokens * d_model,
#     "ffn": 2 * tokens * feed_forward,
#     "lm_head": 2 * tokens * d_model * vocab_size,
# }
# print(operations, "total", sum(operations.values()))

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
    """Bytes of the keys and values that decoding keeps."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("accounting")
