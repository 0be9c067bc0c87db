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

# %% [markdown] tags=["contract"]
# - **Extremes.** Any finite input gives finite weights: rows of 1e4 or -1e4, entries of ±1e38 in float32. Large entries
#   cost no accuracy: only their differences count.
# - **Small weights.** Every weight is accurate, however small, so that rows sum to 1: do not clamp the gaps between
#   entries. An entry of `-inf` gets exactly 0, and the gradients stay finite.
# - **Empty rows.** A row of only `-inf` gives nan, as `torch.softmax` does. Do not hide it.
# - **Half precision.** float16 and bfloat16 are computed in float32, from the differences to the maximum on, and
#   rounded once, at the end. A long row does not overflow.

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
# ### Why is the row maximum subtracted, and not the mean?
#
# - Any constant $c$ cancels: $\frac{e^{x_i - c}}{\sum_j e^{x_j - c}} = \mathrm{softmax}(x)_i$. The choice changes the
#   rounding alone.
# - With the maximum every exponent is at most 0 and one term of the sum is 1. Nothing overflows, and nothing is divided
#   by 0.
# - An entry 89 above the mean would still overflow in float32, which ends at $e^{88.7}$.
#
# Source: Blanchard, Higham, Higham 2019, arXiv:1909.03469.
#
# ### What does a temperature do?
#
# - `softmax(x / T)`: towards one-hot as $T \to 0$, towards uniform as $T \to \infty$. The order of the weights does not
#   change.
# - For two entries the ratio of the weights is $e^{(x_i - x_j)/T}$, so $T$ divides every gap.
# - Divide before the maximum is subtracted or after it. Both are stable.
#
# Source: Hinton, Vinyals, Dean 2015, section 2, arXiv:1503.02531.
#
# ### What is the gradient, and what must be kept for it?
#
# - With $y = \mathrm{softmax}(x)$ and an incoming gradient $g$ it is $y \odot (g - \sum_j g_j y_j)$.
# - The output alone is kept, not the input.
# - Its entries sum to 0, because a constant added to the row changes nothing.
# - A row that is nearly one-hot passes nearly no gradient: the derivatives are $y_i (1 - y_i)$ and $-y_i y_j$.
#
# Source: Dao et al. 2022, appendix B.2, arXiv:2205.14135.
#
# ### Why not `log(softmax(x))` for a loss?
#
# - In float32 a weight is exactly 0 from about 104 below the maximum on. Its logarithm is $-\infty$, and the gradient
#   nan.
# - $x_i - m - \ln \sum_j e^{x_j - m}$ with $m = \max_j x_j$ never takes the logarithm of a small number.
# - The gradient of the cross-entropy is then softmax minus one-hot, with entries between -1 and 1.
#
# Source: PyTorch documentation of `F.log_softmax`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html.
#
# ### What breaks if it is computed in half precision?
#
# - float16 ends at 65,504. Without the shift $e^{x}$ overflows from $x = 11.1$ on.
# - A sum kept in bfloat16 stalls: 256 + 1 is 256 again, so a thousand ones added one by one give 256.
# - In float16 weights below about $3 \cdot 10^{-8}$ are 0, and so is their part of the gradient.
# - Inputs and outputs may be half. Shift, exponential and sum belong in float32, with one rounding at the end.
#
# Source: Micikevicius et al. 2017, section 3.3, arXiv:1710.03740.
#
# ### What would a profiler show for softmax in eager PyTorch, written out?
#
# - Five kernels: maximum, subtraction, exponential, sum, division. Each reads from memory, and three write whole rows.
# - All are limited by bandwidth. The arithmetic units idle.
# - One fused kernel with the row in fast memory reads it once and writes it once. A row too long for that is read twice
#   in the online form, else three times.
#
# Source: Milakov, Gimelshein 2018, arXiv:1805.02867.
#
# ### How are the results of two halves of a row put together?
#
# - Each half gives its maximum and its sum: $m = \max(m_1, m_2)$ and $s = s_1 e^{m_1 - m} + s_2 e^{m_2 - m}$.
# - The operation is associative and commutative, so tiles, threads and devices may combine in any order.
# - A weighted mean of values is rescaled by the same factors. That is how FlashAttention never holds a whole row.
# - A half of only `-inf` needs care: $-\infty - (-\infty)$ is nan.
#
# Source: Milakov, Gimelshein 2018, section 3, arXiv:1805.02867.
#
# ### How would you test it?
#
# - Properties: rows sum to 1, a constant added to a row changes nothing, a permuted row gives permuted weights.
# - The edges: rows of 1e4 and -1e4, an entry of `-inf`, one entry, a square input with `dim=0`.
# - Values against float64, and the gradient by finite differences in float64.
# - Half inputs against the float32 result rounded once, in a row long enough for a bad sum to show.
#
# Source: PyTorch documentation of `gradcheck`,
# https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html.
