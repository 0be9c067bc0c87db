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
#
# **Builds on** rmsnorm. **Sources:** Ba, Kiros, Hinton 2016: Layer normalization,
# [arXiv:1607.06450](https://arxiv.org/abs/1607.06450).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Eps, Large means, Half precision</summary>
#
# - **Eps.** It stands inside the root, and is added to every variance: inputs as small as `eps` show it.
# - **Large means.** Where the mean is $10^4$ times the spread, as in $(10000, 10001, 10002)$, no entry of the
#   normalized vector is off by more than 0.01 in float32.
# - **Half precision.** Mean, differences, variance and root in float32. The normalized vector may be rounded before
#   weight and bias, or after them.
#
# </details>

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
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Each vector of x with mean 0 and variance 1, then scaled and shifted."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("layernorm")
