# ---
# jupyter:
#   dojo:
#     title: Counting parameters, FLOPs and bytes
#     level: 3
#     minutes: 20
#     builds_on: [lm]
#     sources:
#       - "Kaplan et al. 2020: Scaling laws for neural language models, arXiv:2001.08361"
#       - "Hoffmann et al. 2022: Training compute-optimal large language models, appendix F, arXiv:2203.15556"
# ---

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

# %% [markdown] tags=["contract"]
# - **Parameters.** Embedding and head, the four projections and the feed-forward matrices of each layer, two norms a
#   layer and one at the end, each a vector of `d_model`. No biases, none for positions. Keys and values have
#   `num_kv_heads * d_model / num_heads` columns.
# - **FLOPs.** Matrix products alone, of all layers. `qkvo` are the four projections. `attention` is queries by keys and
#   weights by values, of all heads, **in full**, not halved for causality. `lm_head` counts every position. Embedding,
#   norms, softmax and activations do not count.
# - **KV cache.** Keys **and** values of all layers.
# - **Cost.** Sizes are multiplied, not counted one by one.

# %% [markdown] tags=["hint"]
# Every matrix of weights is used once for each token: its FLOPs are twice its size, times the tokens.
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
    """Bytes of the keys and values that decoding keeps for these tokens."""
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
# **Two kinds of products.** Those with weights grow linearly with the tokens: $2N$ FLOPs for each token of a model of
# $N$ weights. Those of attention grow with the square of the length, and have no weights at all.
#
# **The share of the feed-forward layers.** Two matrices of $4d$ are two thirds of a layer's $12 d^2$. Gated at
# $\tfrac83 d$ they are as much; with grouped heads and a wider layer it is more: 81 percent of a layer of Llama 3 8B,
# 70 percent of the model. That is where mixtures of experts save FLOPs.
#
# **Learned positions** are $L d$ weights for $L$ positions, and no product: 0.8 of GPT-2's 124 million. RoPE has none.
#
# **Causality** would halve the attention, and fused kernels skip that half. By convention it is counted in full, so
# that numbers can be compared.
#
# **What it says.** Llama 3 8B at 8,192 tokens: 158 TFLOPs forward, 22 percent of it attention, 0.16 s at an H100's 989
# TFLOPS. Decoding reads 15 GB of weights for each step, 4.5 ms at 3.35 TB/s, and 1.07 GB of cache for each sequence.
#
# **What it costs.** Some 10 µs: sums of a few products, whose answer is in GB. No weight is made to be counted.
#
# ## The other formulation
#
# $C \approx 6 N D$ for training on $D$ tokens: $2N$ forward, $4N$ backward. It ignores attention and is right to within
# ten percent for short contexts. Profilers count instead: `torch.utils.flop_counter` adds up $2mnp$ of every operation.
#
# ## The usual mistakes
#
# - The cache without its factor of 2 for keys and values, or with all query heads.
# - Attention counted once: queries by keys, but not weights by values.
# - A tied matrix counted twice in the parameters, or not at all in the FLOPs.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many hours do `gpus` H100s at 40 percent MFU train `billions` billion weights on `trillions` trillion tokens?
#
# - $C \approx 6 N D$: $2N$ forward and $4N$ backward for each token. The peak is 989 TFLOPS, dense bfloat16.
# - Recomputing every block makes it $8 N D$.
# - It leaves out attention, so it is too low for long contexts.
#
# Answer: `6 * billions * 1e9 * trillions * 1e12 / (gpus * 0.4 * 989e12) / 3600` hours, within 10 %. Settings: `gpus`
# 1000, 8000; `billions` 7, 70; `trillions` 2, 15.
#
# Source: Kaplan et al. 2020, section 2.1, arXiv:2001.08361.
#
# ### How many sequences of `tokens` tokens does Llama 3 70B serve on 640 GB of HBM, at 140 GB of weights?
#
# - The cache takes $2 \cdot 80 \cdot 8 \cdot 128$ numbers for each token: 0.33 MB in bfloat16. The weights leave 500
#   GB.
# - Reserving the longest answer for everybody wastes most of it. Pages of a few tokens are given out as needed.
# - A prefix that many share is kept once.
# - Past that, latency: a step reads the weights once and every cache, so full HBM takes 24 ms on eight H100s.
#
# Answer: `500e9 / (2 * 80 * 8 * 128 * 2 * tokens)` sequences, within 10 %. Settings: `tokens` 2048, 8192, 32768.
#
# Source: Kwon et al. 2023, arXiv:2309.06180.
#
# ### What is MFU, and what does it hide?
#
# - FLOPs by this count, divided by time and by the peak of the hardware. Half is good.
# - Recomputed FLOPs do not count, so recomputation lowers it. Hardware utilization counts them.
# - In decoding it is a few percent by nature, being memory-bound. There the share of the HBM bandwidth is the honest
#   number.
# - Peaks given with sparsity are twice what dense products can reach.
#
# Source: Chowdhery et al. 2022, section 4.1 and appendix B, arXiv:2204.02311.
#
# ### When does attention dominate?
#
# - For a layer of $12 d^2$ weights they cost $24 d^2$ FLOPs a token, attention $4 n d$. Equal at $n = 6d$.
# - At width 4,096 attention is 4 percent at 1,024 tokens, 57 percent at 32,768.
# - With a gated layer of $4d$ the weights are $16 d^2$, and it is $n = 8d$.
# - These count attention in full. A causal kernel does half, and the lengths double.
#
# Source: Hoffmann et al. 2022, appendix F, arXiv:2203.15556.
