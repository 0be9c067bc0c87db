# ---
# jupyter:
#   dojo:
#     title: Scaled dot-product attention
#     level: 1
#     minutes: 10
#     builds_on: [softmax]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, section 3.2.1, arXiv:1706.03762"
# ---

# %% [markdown]
# # Scaled dot-product attention
#
# $$\mathrm{attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# Attention is a soft lookup: a query is compared with every key, the scores become weights that sum to 1, and the
# answer is the weighted mean of the values. All of a transformer's mixing between tokens is this.
#
# **Write** `scaled_dot_product_attention(q, k, v, mask=None)`: `q` has shape `(..., s, d_k)`, `k` `(..., t, d_k)`, `v`
# `(..., t, d_v)`, and the result `(..., s, d_v)`. `mask` is boolean, True = may attend, and broadcasts against
# `(..., s, t)`.
#
# Not allowed: fused attention, such as `F.scaled_dot_product_attention` or `nn.MultiheadAttention`. `torch.softmax` is
# allowed.
#
# **Example.** One query $(2)$, two keys $(\ln 3 / 2)$ and $(0)$ with values $4$ and $8$.
# Here $d_k = 1$, so the scale is 1. The scores are $\ln 3$ and $0$. Their exponentials are $3$ and $1$.
# The weights are $3/4$ and $1/4$, and the result is $3 + 2 = 5$.
# With the second key masked it is $4$, and with both masked $0$.

# %% [markdown] tags=["contract"]
# - **Masked rows.** A query that may attend to nothing gets exact zeros, and all gradients stay finite.
# - **Masked keys.** They have no influence, however large or small the scores are.
# - **Broadcasting.** Leading dimensions broadcast as in `torch.matmul`: `q` may be `(2, 1, s, d_k)` and `k`
#   `(3, t, d_k)`. There may be none.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.

# %% [markdown] tags=["hint"]
# Three lines: scores, weights, weighted mean. Which axis of the scores belongs to the keys?

# %% [markdown] tags=["hint"]
# `q @ k.transpose(-2, -1)` has shape `(..., s, t)`. Divide by the root of `q.shape[-1]`, mask, and take the softmax
# over the last axis. `matmul` broadcasts the leading dimensions for you.

# %% [markdown] tags=["hint"]
# For rows without a key: fill masked scores with the lowest finite number instead of `-inf`, take the softmax, and then
# set masked weights to 0. In half precision: `F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)`.

# %% [markdown] tags=["idea"]
# A dictionary gives you the value whose key equals what you ask for. Attention asks softly. Each token has a query, for
# what it seeks, and a key, by which it is found. Both are vectors, and their product is large where they point the same
# way. No key has to match: every value counts, and the better its key fits, the more. The result moves smoothly with
# queries and keys, so gradients can teach a model where to look. The price is that every query meets every key: 4,096
# tokens are 17 million scores, in each head.
#
# Products grow with the width. A sum of 64 random terms of size 1 is about 8 in size, and a gap of 8 between two scores
# is a ratio of 3,000 between two weights. Before training has begun, one key would get nearly all, and hardly any
# gradient would flow. The figure shows it, and that the right scale keeps weights as they are at every width.

# %% tags=["active-ipynb", "figure"]
# """The largest of 16 weights over widths from 1 to 256. Without a scale it rises from 0.25 to 0.9. Where scores are
# divided by the root of the width it stays at 0.25. By the width itself it falls to 0.07: all keys are nearly alike."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# widths, axes = 2.0 ** np.arange(9), plt.figure(figsize=(7.6, 3.2)).gca()
# scores = np.random.default_rng(0).normal(size=(5000, 16, 1)) * widths**0.5
# for power, style, label in ((0, "-", "scores"), (0.5, "--", "scores / √width"), (1, ":", "scores / width")):
#     powers = np.exp(scores / widths**power)
#     axes.semilogx(widths, (powers.max(axis=1) / powers.sum(axis=1)).mean(axis=0), style, base=2, label=label)
# axes.set(xlabel="width of queries and keys", ylabel="largest of 16 weights", ylim=(0, 1))
# axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

# %% [markdown] tags=["step"]
# **The scores of one query.** Compare it with each key, a row of `keys`, and scale.

# %% tags=["active-ipynb", "step"]
# def scores(query: Float[Tensor, "d_k"], keys: Float[Tensor, "k_len d_k"]) -> Float[Tensor, "k_len"]:
#     """The scaled product of the query with each key."""
#     ### BEGIN SOLUTION
#     return (keys * query).sum(dim=-1) * len(query) ** -0.5
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# scores([1, 2, 0, 2], [[3, 1, 2, 0], [0, 2, 1, 1]]) = [2.5, 3]
# scores([1, 2, 0, 2], [[3, 1, 2, 0], [0, 2, 1, 1]]) ≠ [5, 6]: no scale: scores grow with the width
# scores([1, 2, 0, 2], [[3, 1, 2, 0], [0, 2, 1, 1]]) ≠ [1.25, 1.5]: divided by the width, not by its root
# scores([1, 2, 0, 2], [[3, 1, 2, 0], [0, 2, 1, 1]]) ≠ [3.53553, 4.24264]: the root of the number of keys, not of d_k

# %% [markdown] tags=["step"]
# **The axis.** Make weights of the scores: each query, a row, has a weight of 1 to spread. `torch.softmax` is allowed.

# %% tags=["active-ipynb", "step"]
# def spread(scores: Float[Tensor, "q_len k_len"]) -> Float[Tensor, "q_len k_len"]:
#     """The weight of each key for each query."""
#     ### BEGIN SOLUTION
#     return torch.softmax(scores, dim=-1)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# spread([[0, 1.0986], [1.6094, 0]]) = [[0.25, 0.75], [0.83333, 0.16667]]
# spread([[0, 1.0986], [1.6094, 0]]) ≠ [[0.16667, 0.75], [0.83333, 0.25]]: softmax down the queries: columns sum to 1

# %% [markdown] tags=["step"]
# **The mask.** Give the weights of one row in which only keys with a True count. Where there is none, give zeros.

# %% tags=["active-ipynb", "step"]
# def masked(scores: Float[Tensor, "k_len"], mask: Bool[Tensor, "k_len"]) -> Float[Tensor, "k_len"]:
#     """Weights of the keys that may be attended to; 0 for all others."""
#     ### BEGIN SOLUTION
#     return torch.zeros_like(scores).masked_scatter(mask, torch.softmax(scores[mask], dim=0))
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# masked([-20000, -20001, -20000, -20002], [True, True, False, False]) = [0.73106, 0.26894, 0, 0]
# masked([-20000, -20001, -20000, -20002], [True, True, False, False]) ≠ [0, 0, 0.8808, 0.1192]: inverted: True attends
# masked([-20000, -20001, -20000, -20002], [True, True, False, False]) ≠ [0, 0, 0.5, 0.5]: hidden scores
#     became a number, 0 or -10000, and all others are lower: take -inf, or the lowest number there is
# masked([-20000, -20001, -20000, -20002], [True, True, False, False]) ≠ [0.56005, 0.20603, 0.20603, 0.02788]:
#     the mask is added, which raises a score by 1
# masked([-20000, -20001, -20000, -20002], [True, True, False, False]) ≠ [0.39949, 0.14696, 0, 0]: masked after softmax
# masked([1, 2], [False, False]) = [0, 0]
# masked([1, 2], [False, False]) ≠ [nan, nan]: softmax of a row of only -inf is 0/0; such a query gets zeros
# masked([1, 2], [False, False]) ≠ [0.5, 0.5]: equal scores share the weight; such a query gets zeros

# %% [markdown] tags=["experiment"]
# The figure again, with your function. Change `d_k` to 4 and to 1024: does the largest weight move? Then take the scale
# away: multiply `q` by `d_k**0.5`. Last, let `q` be `0 * q`. Further reading: Vaswani et al. 2017, section 3.2.1 with
# its footnote, arXiv:1706.03762.

# %% tags=["active-ipynb", "experiment"]
# d_k = 64
# q, k = torch.randn(500, 1, d_k), torch.randn(500, 16, d_k)
# weights = scaled_dot_product_attention(q, k, torch.eye(16).expand(500, 16, 16))
# print(f"width {d_k}: the largest weight is {weights.amax(dim=-1).mean():.2f}")


# %%
def scaled_dot_product_attention(
    q: Float[Tensor, "*#batch q_len d_k"],
    k: Float[Tensor, "*#batch k_len d_k"],
    v: Float[Tensor, "*#batch k_len d_v"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
) -> Float[Tensor, "*batch q_len d_v"]:
    """The mean of the values, weighted by the softmax of the scaled products of queries and keys.

    The mask is True where attention is allowed; a query that may attend to nothing gets zeros. Softmax is computed in
    float32 at least. Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
    """
    ### BEGIN SOLUTION
    acc = torch.promote_types(q.dtype, torch.float32)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Masked rows.** With `-inf` a row without keys is 0/0 in the softmax: nan, forward and backward. The lowest finite
# number keeps it finite, and the second fill sets its uniform weights to 0. In any other row they are 0 already.
#
# **Half precision.** Tensor cores accumulate both products in float32 and round once, so they may stay in bfloat16. A
# softmax in bfloat16 would round every exponential and their sum to 8 bits.
#
# **What it costs.** $4 s t d$ FLOPs a head: 0.27 TFLOPs for the 32 heads of 128 of Llama 3 8B at 4,096 tokens, 0.28 ms
# at an H100's 989 TFLOPS. But the scores take $2 s t$ bytes a head, 1.07 GB, and eager PyTorch moves some 36 bytes for
# each (scale, fill, cast, softmax, cast, fill, and the products that write and read them): 19 GB of HBM traffic, 5.8 ms
# at 3.35 TB/s: memory-bound. A fused kernel reads $Q, K, V$ and writes the result, 134 MB in 40 µs: compute-bound.
#
# ## The other formulation
#
# `torch.einsum("...sd,...td->...st", q, k)` needs no transpose. And the division can wait:
# $\big(\sum_t e^{s_t} v_t\big) / \sum_t e^{s_t}$, both sums side by side. FlashAttention does that tile by tile, with a
# running maximum, and never holds all the scores.
#
# ## The usual mistakes
#
# - Softmax over the queries (`dim=-2`). The columns sum to 1, the rows do not.
# - No scale, or `d_k` instead of its root, or the root of `d_v`.
# - The mask inverted, or a boolean mask added as 0 and 1 to the scores.
# - Masking after the softmax without normalizing again.
# - `masked_fill(..., -1e9)` in float16, which raises: it is beyond $-65{,}504$.
# - `k.T` for a batch: it reverses all axes. `k.mT` or `transpose(-2, -1)` swaps the last two.

# %% tags=["active-ipynb", "solution"]
# # Who attends to whom: where the values are the unit vectors, the result is the weights
# import matplotlib.pyplot as plt
#
# q, k = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(3)) * 1.5
# masks = {"no mask": None, "causal": torch.ones(8, 8).tril().bool(), "keys 6 and 7 are padding": torch.arange(8) < 6}
# figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
# for axis, (title, mask) in zip(axes, masks.items()):
#     weights = scaled_dot_product_attention(q, k, torch.eye(8), None if mask is None else mask.expand(8, 8))
#     shown = axis.imshow(weights, vmin=0, vmax=1)
#     axis.set(title=title, xlabel="key", ylabel="query")
# figure.colorbar(shown, ax=axes, label="weight")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why are the scores divided by the root of d_k?
#
# - For independent entries of mean 0 and variance 1, $q \cdot k$ has variance $d_k$. The division makes it 1 at every
#   width.
# - Undivided, softmax is nearly one-hot: with 64 keys and $d_k = 64$ the largest weight is 0.8 on average, divided it
#   is 0.11. One-hot weights pass nearly no gradient.
# - It is a statement about the start: training may make the scores as large as it likes.
#
# Source: Vaswani et al. 2017, section 3.2.1, arXiv:1706.03762.
#
# ### What are `is_causal`, `scale` and a float mask in PyTorch's own attention, and what can go wrong with each?
#
# - `is_causal` is a triangle from the top left. With one query and a cache it hides all keys but the first.
# - `scale` replaces $1/\sqrt{d_k}$, it does not multiply it.
# - A boolean mask is True where a query may attend; a float mask is added to the scores. A mask of ones and zeros cast
#   to float therefore hides nothing.
# - An explicit mask may rule out the fastest kernel. In a profile look at which one ran.
#
# Source: PyTorch documentation of `F.scaled_dot_product_attention`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html.
#
# ### How many ms do the scores take at least in eager PyTorch, `heads` heads of `seq` tokens in bfloat16 on an H100?
#
# - Count what each kernel reads and writes for a score: product 2 bytes, scale 4, fill 4, cast to float32 6, softmax 8,
#   cast back 6, fill 4, product 2. That is 36.
# - HBM3 gives 3.35 TB/s. The FLOPs do not count: with heads of 128 there are 512 of them for these 36 bytes, 14 a byte,
#   where an H100 needs 295 to be busy.
# - One fused kernel keeps the scores in SRAM.
#
# Answer: `36 * heads * seq**2 / 3.35e12 * 1e3` ms, within 30 %. Settings: `heads` 32, 64; `seq` 2048, 4096, 8192.
#
# Source: Dao et al. 2022, section 3, arXiv:2205.14135.
#
# ### From how many tokens on is fused attention compute-bound in bfloat16, at `tflops` TFLOPS and `bandwidth` TB/s?
#
# - FLOPs $4 n^2 d$ a head, without a causal mask. Bytes $8 n d$: $Q$, $K$, $V$ read, the result written.
# - The arithmetic intensity is $n/2$ FLOPs a byte. It has to reach the ratio of the two peaks, the ridge of the
#   roofline.
# - In decoding there is one query: $4 n d$ FLOPs for $4 n d$ bytes, an intensity of 1 at any length.
#
# Answer: `2 * tflops / bandwidth` tokens, within 5 %. Settings: `tflops` 312, 989; `bandwidth` 2.04, 3.35, 4.8.
#
# Source: Dao et al. 2022, section 2.1, arXiv:2205.14135.
