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
#     title: LayerNorm
#     level: 2
#     minutes: 10
#     builds_on: [rmsnorm]
#     sources:
#       - "Ba, Kiros, Hinton 2016: Layer normalization, arXiv:1607.06450"
# ---

# %% [markdown]
# # LayerNorm
#
# $$\mu = \frac1n \sum_j x_j, \qquad \sigma^2 = \frac1n \sum_j (x_j - \mu)^2, \qquad
# y_i = \frac{x_i - \mu}{\sqrt{\sigma^2 + \varepsilon}} \cdot w_i + b_i$$
#
# Every vector is shifted to mean 0 and scaled to variance 1, and then a learned weight and bias put each entry where
# the next layer wants it. No other vector of the batch takes part.
#
# **Write** `LayerNorm(d_model, eps=1e-5, *, device=None, dtype=None)` with `forward(x)`, from `(..., d_model)` to the
# same shape.
#
# - Mean and variance run over the **last dimension**. The variance is **biased**: divided by $n$, not by $n - 1$.
# - $\varepsilon$ is `eps`, and stands inside the root.
# - **Parameters**, and no others: `weight`, ones, and `bias`, zeros, both of shape `(d_model,)`.
# - **Accuracy.** Even when the mean is $10^4$ times the spread, as in $(10000, 10001, 10002)$, no entry of the
#   normalised vector is off by more than 0.01 in float32.
# - **Dtype.** The result has the dtype of the input. float16 and bfloat16 are reduced
#   and divided in float32, the mean included. Before weight and bias the normalised vector may be rounded once
#   more. float64 in, float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `x`, `weight` and `bias`. No
#   loops.
# - **Not graded:** an `x` of another dtype than `weight`, and arguments that make no sense, such as an `eps` below 0.
#
# Not allowed: `nn.LayerNorm`, `F.layer_norm`, `nn.RMSNorm`, `F.rms_norm`, and batch, group and instance norms.
#
# **Example.** $x = (1, 3)$ has mean 2 and variance 1, so it becomes $(-1, 1)$. With `weight` = $(2, 2)$ and `bias` =
# $(0, 5)$ that is $(-2, 7)$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x, weight, bias = (1.0, 3.0), (2.0, 2.0), (0.0, 5.0)
# mean = sum(x) / len(x)
# deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x))
# normal = [(v - mean) / deviation for v in x]
# print("mean", mean, "deviation", deviation, "normalised", normal)
# print([w * v + b for w, v, b in zip(weight, normal, bias)])

# %% [markdown] tags=["hint"]
# The variance is the mean square of what is left after subtracting the mean.

# %% [markdown] tags=["hint"]
# $\mathrm{mean}(x^2) - \mu^2$ is the same number on paper. In float32, with $x$ near 10,000, both terms are near $10^8$
# and have an error of about 8. Subtract first, then square.

# %% [markdown] tags=["hint"]
# `centred = x - x.mean(dim=-1, keepdim=True)` is needed twice: for the variance and for the result. `torch.var`
# divides by $n - 1$ unless you say `correction=0`.

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class LayerNorm(nn.Module):
    """(x - mean) / sqrt(variance + eps) · weight + bias over the last dimension, computed in float32 at least.

    The variance is biased. Ba, Kiros, Hinton 2016, arXiv:1607.06450.
    """

    def __init__(self, d_model: int, eps: float = 1e-5, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(d_model, device=device, dtype=dtype))
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Each vector of x with mean 0 and variance 1, then scaled and shifted."""
        ### BEGIN SOLUTION
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        centred = wide - wide.mean(dim=-1, keepdim=True)
        variance = centred.square().mean(dim=-1, keepdim=True)
        normed = centred * torch.rsqrt(variance + self.eps)
        return (normed * self.weight + self.bias).to(x.dtype)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Subtract first.** $x - \mu$ of nearby numbers is exact or nearly so, and its squares are small.
# $\mathrm{mean}(x^2) - \mu^2$ subtracts two large numbers and keeps only what their rounding left. It can even be
# negative, and then the root is nan.
#
# **Biased.** The norm does not estimate the variance of a population. It gives these $n$ numbers the mean square 1.
#
# **Over the last dimension alone.** Each token is normalised by itself, so training and inference agree and the
# length of the batch does not matter. That is what sets it apart from batch norm.
#
# ## The other formulation
#
# Welford's running update finds mean and variance in one pass without the cancellation. Fused kernels use it.
# LayerNorm is also RMSNorm of the centred vector, plus a bias.
#
# ## The usual mistakes
#
# - `x.var(dim=-1)` without `correction=0`. With four entries it is off by 15 percent.
# - `x.std(...) + eps`: eps belongs inside the root.
# - $\mathrm{mean}(x^2) - \mu^2$ in float32.
# - Normalising over the sequence or the batch too.
# - The bias added before the weight multiplies.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# - **What does it do to the gradient?** It removes two directions: the mean of $g$, and the part along the normalised
#   $x$.
# - **Why not batch norm?** Sequences have different lengths, batches are small and sharded, and inference has one
#   token.
# - **How many numbers does it need to keep for the backward?** The normalised vector or the input, and one $\mu$ and
#   $1/\sigma$ for each vector.
# - **Where does the model use the mean?** Hardly anywhere, as RMSNorm's success shows.
