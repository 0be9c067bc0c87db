# ---
# jupyter:
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
# learned bias is added. Mean and variance run over the last dimension; the variance is biased, divided by $n$.
#
# **Write** `LayerNorm(d_model, eps=1e-5, *, device=None, dtype=None)` with `forward(x)`, from `(..., d_model)` to the
# same shape. Its parameters are `weight`, ones at first, and `bias`, zeros, both of shape `(d_model,)`.
#
# Not allowed: `nn.LayerNorm`, `F.layer_norm`, `nn.RMSNorm`, `F.rms_norm`, and batch, group and instance norms.
#
# **Example.** $x = (1, 3)$ has mean 2 and variance 1, so it becomes $(-1, 1)$. With `weight` = $(2, 2)$ and `bias` =
# $(0, 5)$ that is $(-2, 7)$.

# %% [markdown] tags=["contract"]
# - **Eps.** It stands inside the root, and is added to every variance: inputs as small as `eps` show it.
# - **Large means.** Where the mean is $10^4$ times the spread, as in $(10000, 10001, 10002)$, no entry of the
#   normalized vector is off by more than 0.01 in float32.
# - **Half precision.** Mean, differences, variance and root in float32. The normalized vector may be rounded before
#   weight and bias, or after them.

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
# `centered = x - x.mean(dim=-1, keepdim=True)` is needed twice: for the variance and for the result. `torch.var`
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
# **Over the last dimension alone.** Each token is normalized by itself, so training and inference agree, and the size
# of the batch does not matter. That is what sets it apart from batch norm.
#
# **What it costs.** About 8 FLOPs an entry for 4 bytes moved in bfloat16: memory-bound by two orders of magnitude.
# Fused it reads and writes the tensor once, 40 µs for 8,192 tokens of width 4,096 on an H100; in eager PyTorch it is
# half a dozen kernels, each of which moves as much. A fused kernel saves 8 bytes a vector for the backward: mean and
# root.
#
# ## The other formulation
#
# Welford's running update finds mean and variance in one pass without the cancellation. Fused kernels use it.
# LayerNorm is also RMSNorm of the centered vector, plus a bias.
#
# ## The usual mistakes
#
# - `x.var(dim=-1)` without `correction=0`. With four entries the result is off by 13.4 percent.
# - `x.std(...) + eps`: eps belongs inside the root.
# - $\mathrm{mean}(x^2) - \mu^2$ in float32.
# - Normalizing over the sequence or the batch too.
# - The bias added before the weight multiplies.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why not batch norm?
#
# - Sequences differ in length, batches are small and spread over devices, and decoding has one token.
# - Batch norm behaves differently in training and evaluation. Layer norm does the same thing in both.
# - Batch norm over positions would mix tokens, the future included.
#
# Source: Shen et al. 2020, arXiv:2003.07845.
#
# ### By how many percent is a result too small if the variance is divided by n - 1, for vectors of `n` entries?
#
# - The divisor grows by $\sqrt{n/(n-1)}$, so the result shrinks by $1 - \sqrt{(n-1)/n}$.
# - A test with 4 entries shows 13.4 percent; at the width of a model nothing shows.
# - eps stands inside the root: a vector of equal numbers gives zeros, and the slope there is $1/\sqrt\varepsilon$.
#
# Answer: `100 * (1 - sqrt((n - 1) / n))` percent, within 10 %. Settings: `n` 4, 16, 128.
#
# Source: PyTorch documentation of `nn.LayerNorm`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.LayerNorm.html.
#
# ### Why not the mean square minus the square of the mean?
#
# - Two large numbers are subtracted. For $(10000, 10001, 10002)$ in float32 the result is 0 instead of 0.667.
# - It can become negative, and then the root is nan.
# - Subtract the mean first. If one pass must do, keep mean and centered sum of squares, as Welford does.
#
# Source: Chan, Golub, LeVeque 1983, Algorithms for computing the sample variance,
# https://doi.org/10.1080/00031305.1983.10483115.
#
# ### What is the gradient, and what is kept for it?
#
# - With $\hat x$ the normalized vector and $g$ the gradient times the weight:
#   $\frac{1}{\sigma} \big(g - \mathrm{mean}(g) - \hat x\, \mathrm{mean}(g\, \hat x)\big)$.
# - Two directions vanish: the constant vector and $\hat x$ itself. Neither can change the output.
# - Kept are the input or $\hat x$, and for each vector the mean and $1/\sigma$.
#
# Source: Xu et al. 2019, arXiv:1911.07013.
#
# ### How many µs does a fused kernel take at least for `tokens` tokens of width `width` in bfloat16, on an H100?
#
# - One read and one write of two bytes an entry, at 3.35 TB/s. A square product of width 4,096 takes 278 µs for 8,192
#   tokens: the norm costs a seventh of it, written out in eager PyTorch as much as the product.
# - In BERT norms and softmaxes were 0.2 percent of the FLOPs and a quarter of the time.
# - The gradients of weight and bias are sums over all tokens: a reduction of its own.
#
# Answer: `4 * tokens * width / 3.35e12 * 1e6` µs, within 10 %. Settings: `tokens` 4096, 8192, 16384; `width` 4096,
# 8192.
#
# Source: Ivanov et al. 2020, arXiv:2007.00072.
