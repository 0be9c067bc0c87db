# ---
# jupyter:
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

# %% [markdown] tags=["hint"]
# Add the same constant to every entry of a row. What happens to the numerator, to the denominator, and to the quotient?

# %% [markdown] tags=["hint"]
# You may subtract any constant before you exponentiate.
# Pick the one that makes the largest exponent exactly 0: then nothing overflows, and the sum is at least 1.

# %% [markdown] tags=["hint"]
# Use `amax` and `sum` with `dim=dim, keepdim=True`, so that both broadcast against `x`.
# Work in `torch.promote_types(x.dtype, torch.float32)` and go back to `x.dtype` in the last line.

# %% [markdown] tags=["idea"]
# Scores come out of a product and may be anything: -3.1, 12, 800. A weighted mean needs weights: none negative, all
# together 1. Two moves make the one of the other. Exponentials are positive and keep the order, so the larger score
# gets the larger weight; divided by their sum, they are shares of one whole.
#
# What the weights tell is the gaps between scores. A gap of 1 is a ratio of $e \approx 2.7$, a gap of 5 one of 148,
# whatever the scores are. That has two consequences. Scale the scores up, and nearly all the weight goes to the largest
# one: the figure shows three scores from flat to one-hot. Move all of them by the same amount, and nothing changes.
# The second one saves the computation. An exponential leaves float32 early, at 89, while the weights are ordinary
# numbers. So the row may be moved to where its exponentials are harmless before any is taken.

# %% tags=["active-ipynb", "figure"]
# """Three curves over a factor from 0 to 4 that multiplies the scores 0, 1 and 2. At 0 each weight is one third. The
# weight of the largest score rises to 0.98, the smallest falls at once, the middle one first a little, then too."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# factor = np.linspace(0, 4, 200)
# powers = np.exp(np.outer([2.0, 1.0, 0.0], factor))
# axes = plt.figure(figsize=(7.6, 3.2)).gca()
# for score, style, weights in zip((2, 1, 0), ("-", "--", ":"), powers / powers.sum(0), strict=True):
#     axes.plot(factor, weights, style, label=f"score {score}")
# axes.set(xlabel="factor that multiplies all scores", ylabel="weight", ylim=(0, 1), xlim=(0, 4))
# axes.legend()

# %%
import torch
from jaxtyping import Float
from torch import Tensor

# %% [markdown] tags=["step"]
# **The shift.** Move a row so that its largest entry is 0, and the gaps between entries stay as they are.

# %% tags=["active-ipynb", "step"]
# def shifted(row: Float[Tensor, "n"]) -> Float[Tensor, "n"]:
#     """The row, moved so that its largest entry is 0."""
#     ### BEGIN SOLUTION
#     return row - row.max()
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# shifted([1.0, 3.0, 2.0]) = [-2, 0, -1]
# shifted([1.0, 3.0, 2.0]) ≠ [0, 2, 1]: the smallest entry is subtracted, and the largest exponential still overflows
# shifted([1.0, 3.0, 2.0]) ≠ [-1, 1, 0]: the mean is subtracted, and entries above it may still overflow
# shifted([1.0, 3.0, 2.0]) ≠ [2, 0, 1]: the row is subtracted from its maximum: the order is turned round
# shifted([-1000.0, -1001.0]) = [0, -1]
# shifted([-1000.0, -1001.0]) ≠ [-1000, -1001]: a row below 0 is not moved, and all of its exponentials are 0

# %% [markdown] tags=["step"]
# **The weights, row by row.** `powers` are positive already. Divide each row by its own sum.

# %% tags=["active-ipynb", "step"]
# def shares(powers: Float[Tensor, "rows n"]) -> Float[Tensor, "rows n"]:
#     """Each entry as its share of its row's sum."""
#     ### BEGIN SOLUTION
#     return powers / powers.sum(dim=-1, keepdim=True)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# shares([[1.0, 3.0], [5.0, 5.0]]) = [[0.25, 0.75], [0.5, 0.5]]
# shares([[1.0, 3.0], [5.0, 5.0]]) ≠ [[0.25, 0.3], [1.25, 0.5]]: without `keepdim=True` the sums broadcast along the
#     rows, so each column is divided by the sum of another row
# shares([[1.0, 3.0], [5.0, 5.0]]) ≠ [[0.16667, 0.375], [0.83333, 0.625]]: the sum runs down the columns
# shares([[1.0, 3.0], [5.0, 5.0]]) ≠ [[0.07143, 0.21429], [0.35714, 0.35714]]: the sum of the whole tensor

# %% [markdown] tags=["experiment"]
# Change `temperature` to 0.1, 1 and 10: which row becomes one-hot, which uniform? Then add 1000 to the scores. Last,
# make the scores float16 and `temperature` 0.00001: what overflows, and is it softmax that does?

# %% tags=["active-ipynb", "experiment"]
# temperature = 1.0
# scores = torch.tensor([[2.0, 1.0, 0.0], [0.2, 0.1, 0.0]])
# print(softmax(scores / temperature))


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
#
# The maximum is detached. The result does not depend on $c$, so the gradient through $c$ is zero;
# leaving it out saves work and changes nothing.
#
# A row of only `-inf` computes $-\infty - (-\infty)$, which is nan. That is honest: 0/0 has no answer.
# What a query with no keys should get is for attention to decide, not for softmax.
#
# **What it costs.** Some 5 FLOPs an entry. Fused it reads and writes the row once, an arithmetic intensity of about 1
# FLOP a byte in bfloat16: memory-bound, as on an H100 everything below 300 is. In eager PyTorch the shifted scores and
# their exponentials go to HBM as well. The backward needs the result alone.
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
# ### Two entries are `gap` apart: what weight has the larger one at temperature `T`?
#
# - `softmax(x / T)`: towards one-hot as $T \to 0$, towards uniform as $T \to \infty$. The order of the weights does not
#   change.
# - The ratio of two weights is $e^{(x_i - x_j)/T}$, so $T$ divides every gap. With two entries it is a sigmoid of it.
# - Divide before the maximum is subtracted or after it. Both are stable.
#
# Answer: `1 / (1 + exp(-gap / T))`, within 3 %. Settings: `gap` 1, 2; `T` 0.5, 1, 2.
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
# ### How many GB does eager PyTorch move for the softmax of `heads` heads of `seq` tokens, written out in float32?
#
# - Five kernels: maximum, subtraction, exponential, sum, division. Each reads the scores, and three write as many.
# - That is eight times four bytes a score, and a few numbers a row. All are memory-bound: the FLOPs do not count.
# - One fused kernel with the row in SRAM reads it once and writes it once. A row too long for that is read twice in the
#   online form, whose halves combine by $m = \max(m_1, m_2)$ and $s = s_1 e^{m_1 - m} + s_2 e^{m_2 - m}$.
#
# Answer: `32 * heads * seq**2 / 1e9` GB, within 15 %. Settings: `heads` 12, 32; `seq` 2048, 4096, 8192.
#
# Source: Milakov, Gimelshein 2018, arXiv:1805.02867.
