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
#
# **Builds on** rmsnorm. **Sources:** Ba, Kiros, Hinton 2016: Layer normalization,
# [arXiv:1607.06450](https://arxiv.org/abs/1607.06450).
#
# House rules hold: docs/house_rules.md.

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
