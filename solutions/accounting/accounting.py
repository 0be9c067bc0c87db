# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   dojo:
#     title: Counting parameters, operations and bytes
#     level: 3
#     minutes: 25
#     builds_on: [lm]
#     sources:
#       - "Kaplan et al. 2020: Scaling laws for neural language models, arXiv:2001.08361"
#       - "Hoffmann et al. 2022: Training compute-optimal large language models, appendix F, arXiv:2203.15556"
# ---

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

# %% [markdown] tags=["hint"]
# Every matrix of weights is used once for each token: its operations are twice its size, times the tokens.

# %% [markdown] tags=["hint"]
# Attention has two products without weights: for each head `seq × head_dim` by `head_dim × seq`, and `seq × seq` by
# `seq × head_dim`. Sum over the heads.

# %% [markdown] tags=["hint"]
# Fewer key heads shrink `k_proj`, `v_proj` and the cache. They do not shrink the products of attention: every query
# head still meets every key.

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
### BEGIN SOLUTION
def kv_dim(config: Config) -> int:
    kv_heads = config.num_heads if config.num_kv_heads is None else config.num_kv_heads
    return config.d_model // config.num_heads * kv_heads


def projection_weights(config: Config) -> int:
    q_and_o = 2 * config.d_model * config.d_model
    k_and_v = 2 * config.d_model * kv_dim(config)
    return q_and_o + k_and_v


def ffn_weights(config: Config) -> int:
    return (3 if config.gated else 2) * config.d_model * config.d_ff


### END SOLUTION


# %%
def parameter_count(config: Config) -> int:
    """The number of parameters, norms included. Kaplan et al. 2020, arXiv:2001.08361, table 1, without biases."""
    ### BEGIN SOLUTION
    table = config.vocab_size * config.d_model
    tables = table if config.tied else 2 * table
    norms = (2 * config.num_layers + 1) * config.d_model
    layers = config.num_layers * (projection_weights(config) + ffn_weights(config))
    return tables + layers + norms
    ### END SOLUTION


# %%
def forward_flops(config: Config, seq_len: int, batch: int = 1) -> dict[str, int]:
    """Floating-point operations of the matrix products in a forward pass, by part and in total."""
    ### BEGIN SOLUTION
    tokens = batch * seq_len
    flops = {
        "qkvo": 2 * tokens * config.num_layers * projection_weights(config),
        "attention": config.num_layers * batch * 2 * (2 * seq_len * seq_len * config.d_model),
        "ffn": 2 * tokens * config.num_layers * ffn_weights(config),
        "lm_head": 2 * tokens * config.d_model * config.vocab_size,
    }
    return flops | {"total": sum(flops.values())}
    ### END SOLUTION


# %%
def kv_cache_bytes(config: Config, seq_len: int, batch: int = 1, bytes_per_element: int = 2) -> int:
    """Bytes of the keys and values that decoding keeps."""
    ### BEGIN SOLUTION
    keys_and_values = 2 * config.num_layers * kv_dim(config)
    return keys_and_values * batch * seq_len * bytes_per_element
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **One product, 2mnp.** Each of the $mp$ results is a sum of $n$ products: $n$ multiplications and about as many
# additions.
#
# **Two kinds of products.** Those with weights grow linearly with the tokens: $2N$ operations for each token of a
# model of $N$ weights. Those of attention grow with the square of the length, and have no weights at all.
#
# **When does attention win?** For a gated layer with $d_{\mathrm{ff}} = 4d$ the weights cost
# $2 n (4 d^2 + 12 d^2) = 32 n d^2$ and attention $4 n^2 d$. They are equal at $n = 8d$: about 13,000 tokens for
# GPT-2 XL.
#
# **Causality** would halve the attention, and fused kernels do skip the half. By convention it is counted in full, so
# that numbers can be compared.
#
# **What it costs.** $O(1)$ time, and no more than a few hundred bytes: integers are multiplied, and no tensor is made.
#
# ## The other formulation
#
# $C \approx 6 N D$ for training on $D$ tokens: $2N$ forwards, $4N$ backwards. It ignores attention and the embedding,
# and is right to within ten percent for short contexts.
#
# ## The usual mistakes
#
# - One matrix of the gated layer forgotten.
# - The cache without its factor of 2 for keys and values, or with all query heads.
# - Attention counted once: queries by keys, but not weights by values.
# - The lookup in the embedding counted as a product.
# - A tied matrix counted twice in the parameters, or not at all in the operations.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How much memory does training take?
#
# - With Adam in mixed precision 16 bytes for each parameter: 2 for the weight, 2 for its gradient, 4 for a float32 copy
#   and 4 for each moment.
# - 7 billion parameters take 112 GB before any activation. That is more than one device of 80 GB has.
# - Sharding the optimiser, then gradients, then weights over $k$ devices divides these parts by $k$.
# - Activations come on top: recompute, or a smaller batch with gradients summed over several.
#
# Source: Rajbhandari et al. 2019, section 3, arXiv:1910.02054.
#
# ### How long does training take?
#
# - $C \approx 6 N D$: $2N$ forwards and $4N$ backwards for each token.
# - 7 billion parameters on 2 trillion tokens: $8.4 \cdot 10^{22}$ operations. A thousand devices at 40 percent of 989
#   TFLOPS need 59 hours.
# - Recomputing every block makes it $8 N D$.
# - It leaves out attention, so it is too low for long contexts.
#
# Source: Kaplan et al. 2020, section 2.1, arXiv:2001.08361.
#
# ### How long does a token take to decode?
#
# - At batch 1 every weight is read once: bytes of the model divided by the bandwidth. 140 GB at 3.35 TB/s is 42 ms.
# - A batch shares this reading, until its caches weigh as much as the model.
# - 70 billion parameters with 64 sequences of 8,192 tokens: 172 GB of cache against 140 GB of weights, at 8 key heads.
# - Spread over $k$ devices the bandwidths add up, less the time to exchange results.
#
# Source: Pope et al. 2022, section 2, arXiv:2211.05102.
#
# ### How many users fit?
#
# - The memory that the weights leave, divided by the cache of one user.
# - Eight devices of 80 GB with 140 GB of weights leave 500 GB. At 2.7 GB for 8,192 tokens that is about 186.
# - Reserving the longest answer for everybody wastes most of it. Pages of a few tokens are given out as they are
#   needed.
# - A prompt that many share is kept once.
#
# Source: Kwon et al. 2023, arXiv:2309.06180.
#
# ### What is MFU, and what does it hide?
#
# - Operations by this count, divided by time and by the peak of the hardware. Half is good.
# - Recomputed operations do not count, so recomputation lowers it. The utilisation of the hardware counts them.
# - In decoding it is a few percent by nature. There the share of the bandwidth is the honest number.
# - Peaks given with sparsity are twice what dense products can reach.
#
# Source: Chowdhery et al. 2022, section 4.1 and appendix B, arXiv:2204.02311.
#
# ### When does attention dominate?
#
# - For a layer of $12 d^2$ weights they cost $24 d^2$ operations a token, attention $4 n d$. Equal at $n = 6d$.
# - At width 4,096 attention is 4 percent at 1,024 tokens, 57 percent at 32,768.
# - With a gated layer of $4d$ the weights are $16 d^2$, and it is $n = 8d$.
# - These count attention in full. A causal kernel does half, and the lengths double.
#
# Source: Hoffmann et al. 2022, appendix F, arXiv:2203.15556.
#
# ### What does GQA change in the three counts?
#
# - Parameters: key and value matrices shrink by the group. That is about a tenth of a layer.
# - Operations: the projections by as much as their parameters, scores and means not at all.
# - The cache: by the whole group. That is what it is for.
#
# Source: Ainslie et al. 2023, arXiv:2305.13245.
#
# ### Given a budget of operations, how large a model would you train?
#
# - About 20 tokens for each parameter: $C = 6 N \cdot 20 N$, so $N = \sqrt{C / 120}$.
# - $10^{24}$ operations: 91 billion parameters on 1.8 trillion tokens.
# - If it is to serve many requests, take a smaller one and train it longer. Inference costs $2N$ a token for as long as
#   it is used.
#
# Source: Hoffmann et al. 2022, section 3, arXiv:2203.15556.
#
# ### How would you check such a count, and why does the time differ?
#
# - Sum `p.numel()` of the real model. Count operations with `torch.utils.flop_counter` or the profiler.
# - Sizes that are all different catch swapped ones. Doubling one size must change each part by the power that it has.
# - Time is not operations: norms, activations, optimiser, communication and waiting do not appear in the count.
# - Tied matrices: once in the parameters, both times in the work.
#
# Source: PyTorch documentation of `torch.profiler`, https://docs.pytorch.org/docs/stable/profiler.html.
