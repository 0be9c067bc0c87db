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
#     title: Stable softmax
#     level: 1
#     minutes: 10
#     builds_on: []
#     sources:
#       - "Blanchard, Higham, Higham 2021: Accurately computing the log-sum-exp and softmax functions"
#       - "Milakov, Gimelshein 2018: Online normalizer calculation for softmax, arXiv:1805.02867"
# ---

# %% [markdown]
# # Stable softmax
#
# $$\mathrm{softmax}(x)_i = \frac{e^{x_i}}{\sum_j e^{x_j}}$$
#
# `softmax` turns a row of scores into weights that are positive and sum to 1. The sum runs over one dimension, `dim`;
# every other dimension is a batch. Written as above it overflows: $e^{89}$ is already too large for float32. Your
# version must not.
#
# **Write** `softmax(x, dim=-1)`. The result has the shape, dtype and device of `x`.
#
# - **Any finite input** gives finite weights: rows of 1e4, of -1e4, and entries of ±1e38 in float32. Large entries
#   cost no accuracy: only their differences count.
# - **An entry of `-inf`** gets weight exactly 0. The other weights, and all gradients, stay finite.
# - **Every weight is accurate**, however small: do not clamp the gaps between entries. float64 in, float64 out;
#   float32 accuracy is enough.
# - **A row of only `-inf`** gives nan, as `torch.softmax` does. Do not hide it.
# - **`dim`** may be any dimension of `x`, negative or not.
# - **float16 and bfloat16** are computed in float32 and rounded once, at the end. So are their gradients: what autograd
#   keeps for the backward pass is not rounded.
# - **`x` is not modified.** It may be non-contiguous or expanded. Gradients flow back to it.
# - **No loops** over rows or entries, and no tensor that grows faster than `x`.
# - **Not graded:** adding something tiny to the sum, such as 1e-9. It is not needed, and in float32 it changes nothing.
#
# Not allowed: every softmax, log-softmax, logsumexp (the cumulative one too) or fused attention operation of PyTorch,
# forwards or backwards.
#
# **Example.** For $x = (0, \ln 2, \ln 5)$ the exponentials are $1, 2, 5$ and their sum is $8$.
# So `softmax(x)` is `[0.125, 0.25, 0.625]`. Add 1000 to every entry and the answer is the same.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# x = torch.tensor([1.0, 2.0, 5.0]).log()
# exponentials = x.exp()
# print(exponentials, "sum", exponentials.sum())
# print("weights", exponentials / exponentials.sum())
# print("float32 ends at", torch.tensor([88.0, 89.0]).exp())

# %% [markdown] tags=["hint"]
# Add the same constant to every entry of a row. What happens to the numerator, to the denominator, and to the quotient?

# %% [markdown] tags=["hint"]
# You may subtract any constant before you exponentiate.
# Pick the one that makes the largest exponent exactly 0: then nothing overflows, and the sum is at least 1.

# %% [markdown] tags=["hint"]
# Use `amax` and `sum` with `dim=dim, keepdim=True`, so that both broadcast against `x`.
# Work in `torch.promote_types(x.dtype, torch.float32)` and go back to `x.dtype` in the last line.

# %%
import torch
from jaxtyping import Float
from torch import Tensor


# %%
def softmax(x: Float[Tensor, "*batch"], dim: int = -1) -> Float[Tensor, "*batch"]:
    """Weights along `dim` that are proportional to exp(x) and sum to 1.

    Finite for every finite input. Half precision is computed in float32 and rounded once; float64 stays float64.
    """
    ### BEGIN SOLUTION
    acc = torch.promote_types(x.dtype, torch.float32)
    row_max = x.detach().amax(dim=dim, keepdim=True)
    shifted = x.to(acc) - row_max
    exp = torch.exp(shifted)
    total = exp.sum(dim=dim, keepdim=True)
    return (exp / total).to(x.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $$\frac{e^{x_i - c}}{\sum_j e^{x_j - c}} = \frac{e^{-c}\, e^{x_i}}{e^{-c} \sum_j e^{x_j}} = \mathrm{softmax}(x)_i$$
#
# The shift $c$ cancels, so we are free to choose it. With $c = \max_j x_j$ every exponent is at most 0.
# Nothing overflows. One term of the sum is $e^0 = 1$, so we never divide by 0.
# Small terms may underflow to 0, and that is their right value.
#
# The maximum is detached. The result does not depend on $c$, so the gradient through $c$ is zero;
# leaving it out saves work and changes nothing.
#
# A row of only `-inf` computes $-\infty - (-\infty)$, which is nan. That is honest: 0/0 has no answer.
# What a query with no keys should get is for attention to decide, not for softmax.
#
# **What it costs.** $O(n)$ time for $n$ entries. The shifted scores, their exponentials and the result take $4 n$ bytes
# each in float32; the backward pass could do with the result alone.
#
# ## The other formulation: online
#
# Keep a running maximum $m$ and a running sum $s$. For each new entry,
# $m' = \max(m, x_i)$ and $s' = s\, e^{m - m'} + e^{x_i - m'}$.
# This reads the row once instead of twice, and never needs the whole row in memory. It is the heart of FlashAttention.
#
# ## The usual mistakes
#
# - The maximum of the whole tensor instead of the row. A row far below the maximum then underflows to 0/0.
# - A missing `keepdim=True`. On a square input it broadcasts the wrong way and raises no error.
# - Summing in float16. The sum of 100,000 equal exponentials is beyond 65,504, the largest float16.
# - Adding 1e-9 to the denominator "for safety". It is at least 1 already; now the weights do not sum to 1.
# - Clamping the input. It silently changes the answer for large scores.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# - **What is the gradient?** With $y = \mathrm{softmax}(x)$ and an incoming gradient $g$ it is
#   $y \odot (g - \sum_j g_j y_j)$. Only the output is needed, not the input.
# - **Why not `log(softmax(x))` for a loss?** A weight that underflows to 0 has logarithm $-\infty$.
#   Use $x_i - \max x - \ln \sum_j e^{x_j - \max x}$.
# - **What does a temperature do?** `softmax(x / T)`: towards one-hot as $T \to 0$, towards uniform as $T \to \infty$.
# - **How many passes over memory?** Three as written (maximum, sum, division), two when online, one when fused with
#   what consumes the weights.
# - **Can softmax give exactly 0?** In exact arithmetic no. In float32 yes, about 104 below the maximum.
