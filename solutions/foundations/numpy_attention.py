# ---
# jupyter:
#   dojo:
#     title: Causal attention in NumPy
#     level: 2
#     minutes: 20
#     builds_on: [softmax, causal_attention]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, arXiv:1706.03762"
# ---

# %% [markdown]
# # Causal attention in NumPy
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K_h^\top}{\sqrt{d}} + M\right) V_h, \qquad
# M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}$$
#
# Multi-head attention without a framework.
#
# **Write** in NumPy alone
#
# - `softmax(x, axis=-1)`: stable, of the shape of `x`;
# - `causal_attention(x, w_q, w_k, w_v, w_o, num_heads)`, from `(batch, seq, d_model)` to the same shape.
#
# The weights are `(d_model, d_model)` and stand on the right: `q = x @ w_q`. Head $h$ takes the columns
# $h d \ldots (h + 1) d - 1$, with $d$ = `d_model / num_heads`. Token $i$ attends to tokens $0 \ldots i$. The heads,
# joined in order, are multiplied by `w_o`. No biases, no dropout.
#
# **Example.** `softmax([1000, 1000])` is `[0.5, 0.5]`. With one head, identities for weights and
# `x = [[[1, 0], [0, 1]]]` token 0 gives `[1, 0]`. Token 1 has the scores 0 and 0.7071, so the weights 0.3302 and
# 0.6698, and gives `[0.3302, 0.6698]`.

# %% [markdown] tags=["contract"]
# - **Large logits.** Entries of ±1000 give neither nan nor a warning of overflow, nor do rows far from each other.
# - **Minus infinity.** An entry of `-inf` gets exactly 0 in `softmax`. A row of nothing else is not asked for.
# - **Dtype.** float32 in, float32 out; float64 in, float64 out. Half precision is not asked for.
# - **Errors.** `d_model` no multiple of `num_heads`: a `ValueError` with both.

# %% [markdown] tags=["hint"]
# Subtract from each row its maximum. Which arguments of `max` and `sum` let the result broadcast against `x`?

# %% [markdown] tags=["hint"]
# `reshape` to `(batch, seq, num_heads, head_dim)` first, then swap two axes: the other way round tokens and heads mix.

# %% [markdown] tags=["hint"]
# `np.tri(seq, dtype=bool)` is True where a token may look. Put `-inf` elsewhere, before the softmax. Divide by
# `math.sqrt(head_dim)`, a Python float: `np.sqrt` of an integer is a float64, and makes float32 scores float64.

# %%
import math

import numpy as np
from jaxtyping import Float


# %%
def softmax(x: Float[np.ndarray, "*batch"], axis: int = -1) -> Float[np.ndarray, "*batch"]:
    """Weights along `axis` that are proportional to exp(x) and sum to 1."""
    ### BEGIN SOLUTION
    exps = np.exp(x - x.max(axis=axis, keepdims=True))
    return exps / exps.sum(axis=axis, keepdims=True)
    ### END SOLUTION


# %%
def causal_attention(
    x: Float[np.ndarray, "batch seq d_model"],
    w_q: Float[np.ndarray, "d_model d_model"],
    w_k: Float[np.ndarray, "d_model d_model"],
    w_v: Float[np.ndarray, "d_model d_model"],
    w_o: Float[np.ndarray, "d_model d_model"],
    num_heads: int,
) -> Float[np.ndarray, "batch seq d_model"]:
    """What each token gets from those up to itself. Raises ValueError where `num_heads` does not divide `d_model`."""
    ### BEGIN SOLUTION
    batch, seq, d_model = x.shape
    if d_model % num_heads:
        raise ValueError(f"d_model={d_model} is no multiple of num_heads={num_heads}")

    def split(projected):  # (batch, seq, d_model) -> (batch, num_heads, seq, head_dim)
        return projected.reshape(batch, seq, num_heads, -1).swapaxes(1, 2)

    q, k, v = split(x @ w_q), split(x @ w_k), split(x @ w_v)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(d_model // num_heads)
    scores = np.where(np.tri(seq, dtype=bool), scores, -np.inf)
    heads = softmax(scores) @ v
    return heads.swapaxes(1, 2).reshape(batch, seq, d_model) @ w_o
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# Heads are a batch axis: `@` multiplies the last two axes and repeats over all others, so no loop is left. Splitting is
# a view, for `reshape` and `swapaxes` only change strides; merging copies, as the heads of a token do not lie side by
# side.
#
# The mask is `-inf`, since $e^{-\infty}$ is exactly 0, and a token always sees itself, so no row is empty. A mask that
# is multiplied in after the softmax leaves rows that do not sum to 1.
#
# **What it costs.** Scores take `4 · batch · num_heads · seq²` bytes in float32, weights as many. The two products with
# them take `4 · batch · seq² · d_model` FLOPs, half of them for the future, which is thrown away. FlashAttention never
# holds the scores, and skips blocks of the future.
#
# **Dtypes.** Since NumPy 2 a scalar such as `np.float64(8.0)` counts as float64, where a Python float does not:
# float32 scores divided by `np.sqrt(64)` are float64. So are those to which a mask of `np.zeros` was added.
#
# ## The usual mistakes
#
# - A maximum over the whole array: rows far below it become 0 / 0.
# - `reshape(batch, num_heads, seq, head_dim)` at once: it has the right shape, and mixes tokens.
# - `np.tri(seq, k=-1)`: token 0 sees nothing.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many GB do the scores take in float32, for one text of `seq` tokens and `heads` heads?
#
# - Each head has `seq` by `seq` of them; the softmax makes as many weights beside them.
# - They grow with the square of the length, keys and values with the length alone.
# - FlashAttention goes by blocks that stay in SRAM, and keeps one logsumexp a query.
#
# Answer: `4 * heads * seq**2 / 1e9` GB, within 5 %. Settings: `heads` 16, 32; `seq` 4096, 8192, 16384.
#
# Source: Dao et al. 2022, section 3, arXiv:2205.14135.
#
# ### From how many tokens on do scores take more FLOPs than projections, at width `d_model`?
#
# - Four projections take $8 \cdot \text{seq} \cdot d^2$ FLOPs, the two products with the scores
#   $4 \cdot \text{seq}^2 \cdot d$.
# - They are equal where the length is twice the width. A kernel that skips the future moves that to four times.
# - Below it a longer text costs in proportion: most of the work is in the weights.
#
# Answer: `2 * d_model` tokens, within 5 %. Settings: `d_model` 2048, 4096, 8192.
#
# Source: Kaplan et al. 2020, section 2.1, arXiv:2001.08361.
#
# ### Why are scores divided by $\sqrt{d}$?
#
# - Entries of variance 1 give a product of variance $d$: at 128 a standard deviation of 11.
# - Then one weight is nearly 1, and the gradients of softmax, $p_i (1 - p_i)$, are nearly 0.
# - It is the width of a head, not of the model.
#
# Source: Vaswani et al. 2017, section 3.2.1, arXiv:1706.03762.
#
# ### Why is a softmax in float16 summed in float32?
#
# - From 2,048 on a float16 sum of ones stands still: neighbors are 2 apart, and 2,049 is rounded to 2,048.
# - Above 65,504 it is infinite.
# - NumPy adds in pairs along the last axis, which hides the first of these; a running sum does not.
#
# Source: Micikevicius et al. 2017, section 3.3, arXiv:1710.03740.
