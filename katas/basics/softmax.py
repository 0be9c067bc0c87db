# %% [markdown]
# # Stable softmax
#
# $$\mathrm{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$$
#
# `softmax` turns a row of scores into weights that are positive and sum to 1: what attention weighs its values with,
# and what a classifier ends in. The sum runs over one dimension, `dim`; every other dimension is a batch. Written as
# above it overflows: $e^{89}$ is too large for float32 already. Yours must not.
#
# **Write** `softmax(x, dim=-1)`, for `x` of any shape and any of its dimensions. The result has the shape of `x`.
#
# Not allowed: every softmax, log-softmax, logsumexp (the cumulative one too) or fused attention operation of PyTorch,
# forwards or backwards.
#
# **Example.** For $x = (0, \ln 2, \ln 5)$ the exponentials are $1, 2, 5$ and their sum is $8$.
# So `softmax(x)` is `[0.125, 0.25, 0.625]`. Add 1000 to every entry and the answer is the same.
#
# **Sources:** Blanchard, Higham, Higham 2021: Accurately computing the log-sum-exp and softmax functions; Milakov,
# Gimelshein 2018: Online normalizer calculation for softmax, [arXiv:1805.02867](https://arxiv.org/abs/1805.02867).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Extremes, Small weights, Empty rows, Half precision</summary>
#
# - **Extremes.** Any finite input gives finite weights: rows of 1e4 or -1e4, entries of ±1e38 in float32. Large entries
#   cost no accuracy: only their differences count.
# - **Small weights.** Every weight is accurate, however small, so that rows sum to 1: do not clamp the gaps between
#   entries. An entry of `-inf` gets exactly 0, and the gradients stay finite.
# - **Empty rows.** A row of only `-inf` gives nan, as `torch.softmax` does. Do not hide it.
# - **Half precision.** float16 and bfloat16 are computed in float32, from the differences to the maximum on, and
#   rounded once, at the end. A long row does not overflow.
#
# </details>

# %%
import torch
from jaxtyping import Float
from torch import Tensor


# %%
def softmax(x: Float[Tensor, "*batch"], dim: int = -1) -> Float[Tensor, "*batch"]:
    """Weights along `dim` that are proportional to exp(x) and sum to 1.

    Finite for every finite input. Half precision is computed in float32 and rounded once; float64 stays float64.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("softmax")
