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
# Every vector is shifted to mean 0 and scaled to variance 1. Then each entry is multiplied by a learned weight, and a
# learned bias is added. Other vectors of the batch have no influence.
#
# **Write** `LayerNorm(d_model, eps=1e-5, *, device=None, dtype=None)` with `forward(x)`, from `(..., d_model)` to the
# same shape.
#
# - Mean and variance run over the **last dimension**. The variance is **biased**: divided by $n$, not by $n - 1$.
# - $\varepsilon$ is `eps`, and stands inside the root.
# - **Parameters**, and no others: `weight`, ones, and `bias`, zeros, both of shape `(d_model,)`.
# - **Accuracy.** Even when the mean is $10^4$ times the spread, as in $(10000, 10001, 10002)$, no entry of the
#   normalised vector is off by more than 0.01 in float32.
# - **Dtype.** The result has the dtype of the input. With float16 or bfloat16 inputs, mean, variance and division are
#   computed in float32. Before weight and bias the normalised vector may be rounded once more. float64 in, float64 out;
#   float32 accuracy is enough.
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
# **Over the last dimension alone.** Each token is normalised by itself, so training and inference agree, and the size
# of the batch does not matter. That is what sets it apart from batch norm.
#
# **What it costs.** $O(b d)$ time for $b$ vectors of width $d$. The centred vectors, their squares and the result take
# $4 b d$ bytes each in float32. A fused kernel stores only the result and 8 bytes for each vector: mean and root.
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
# ### Why not batch norm?
#
# - Sequences differ in length, batches are small and spread over devices, and decoding has one token.
# - Batch norm behaves differently in training and evaluation. Layer norm does the same thing in both.
# - In language data the statistics of a batch vary much from step to step.
# - Batch norm over positions would mix tokens, the future included.
#
# Source: Shen et al. 2020, arXiv:2003.07845.
#
# ### Why is the variance biased, and why is eps inside the root?
#
# - The norm estimates nothing. It gives these $n$ numbers the mean square 1.
# - A vector of equal numbers has variance 0. eps makes it a vector of zeros instead of nan.
# - Inside the root the slope at variance 0 is finite: $1/\sqrt{\varepsilon}$.
# - At width 4,096 the divisor $n - 1$ changes the result by 0.01 percent, in a test with 4 entries by 15.
#
# Source: PyTorch documentation of `nn.LayerNorm`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html.
#
# ### When would you take RMSNorm instead?
#
# - In a new language model: one reduction less, no bias, and quality holds.
# - For a checkpoint never by simple replacement. The mean of a vector is not 0 by itself.
# - LayerNorm is RMSNorm of the centred vector, plus a bias. The centring is linear, so it can be folded into the
#   weights before it.
#
# Source: Jiang et al. 2023, arXiv:2305.14858.
#
# ### Why not the mean square minus the square of the mean?
#
# - Two large numbers are subtracted. For $(10000, 10001, 10002)$ in float32 the result is 0 instead of 0.667.
# - It can become negative, and then the root is nan.
# - Subtract the mean first. If one pass must do, keep mean and centred sum of squares, as Welford does.
# - Two parts of a vector combine as $M = M_1 + M_2 + \delta^2 \frac{n_1 n_2}{n}$, with $\delta$ the difference of their
#   means.
#
# Source: Chan, Golub, LeVeque 1983, Algorithms for computing the sample variance,
# https://doi.org/10.1080/00031305.1983.10483115.
#
# ### What is the gradient, and what is kept for it?
#
# - With $\hat x$ the normalised vector and $g$ the gradient times the weight:
#   $\frac{1}{\sigma} \big(g - \mathrm{mean}(g) - \hat x\, \mathrm{mean}(g\, \hat x)\big)$.
# - Two directions vanish: the constant vector and $\hat x$ itself. Neither can change the output.
# - Kept are the input or $\hat x$, and for each vector the mean and $1/\sigma$.
# - The factor $1/\sigma$ shrinks the gradient of large activations.
#
# Source: Xu et al. 2019, arXiv:1911.07013.
#
# ### What breaks in half precision?
#
# - Centred entries of 256 have squares beyond float16.
# - A mean over thousands of bfloat16 numbers keeps two digits, if the sum is rounded at each step.
# - An eps of $10^{-12}$ is 0 in float16, whose smallest number is $6 \cdot 10^{-8}$.
# - So autocast runs it in float32 and only input and output are half.
#
# Source: PyTorch documentation of `torch.amp`, https://docs.pytorch.org/docs/stable/amp.html.
#
# ### What share of the time is it, and what would a profiler show?
#
# - In BERT the norms and softmaxes were 0.2 percent of the operations and a quarter of the time.
# - 4,096 tokens of width 4,096 in bfloat16 are 67 MB to read and write: 20 µs at 3.35 TB/s. A square product of that
#   width takes 140 µs at 989 TFLOPS.
# - Written out it is half a dozen kernels, and each moves that much. One fused kernel also adds the residual.
# - The gradients of weight and bias are sums over all tokens: a reduction of its own.
#
# Source: Ivanov et al. 2020, arXiv:2007.00072.
#
# ### How would you test it?
#
# - $\mathrm{norm}(a x + c) = \mathrm{norm}(x)$ for $a > 0$, eps aside. Before weight and bias the mean is 0 and the
#   mean square 1.
# - An offset of 10,000 against float64, to catch the cancellation.
# - Other vectors of the batch changed: the result must not.
# - A weight and a bias that are not ones and zeros: otherwise their order is never tested.
#
# Source: Ba, Kiros, Hinton 2016, section 5.1, arXiv:1607.06450.
