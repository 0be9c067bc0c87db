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
#     title: Linear layer
#     level: 1
#     minutes: 8
#     builds_on: []
#     sources:
#       - "Glorot, Bengio 2010: Understanding the difficulty of training deep feedforward neural networks,
#         https://proceedings.mlr.press/v9/glorot10a.html"
# ---

# %% [markdown]
# # Linear layer
#
# $$y = W x, \qquad y_o = \sum_i W_{oi}\, x_i, \qquad
# W_{oi} \sim \mathcal N\!\Big(0,\ \sigma^2 = \frac{2}{n_{\mathrm{in}} + n_{\mathrm{out}}}\Big)
# \text{ truncated at } \pm 3\sigma$$
#
# Nearly all weights of a transformer sit in layers like this one. It mixes the entries of each vector, the same way for
# every token. Modern models leave out the bias.
#
# **Write** `Linear(in_features, out_features, *, device=None, dtype=None)` with `forward(x)`, from `(..., in_features)`
# to `(..., out_features)`, with any number of leading dimensions, also none.
#
# - **Parameter**, and no other: `weight`, stored `(out_features, in_features)`. No bias.
# - **Initialisation**: a normal of mean 0 and variance $2 / (\text{in\_features} + \text{out\_features})$, truncated
#   at three standard deviations. `nn.init.trunc_normal_` draws such numbers. Two layers draw different ones.
# - **Dtype and device.** The parameter has the dtype and the device that the constructor is given. The result has the
#   dtype of the parameter. float64 in, float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `x` and to `weight`. No loops.
# - **Not graded:** an input of another dtype than the weight, or of another width.
#
# Not allowed: `nn.Linear`, `F.linear`, `nn.Bilinear`. Products such as `@`, `torch.matmul` and `torch.einsum` are
# allowed.
#
# **Example.** With `weight` = `[[1, 2, 0], [0, 1, -1]]` and $x = (1, 1, 3)$ the result is $(1 + 2, 1 - 3) = (3, -2)$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# weight, x = torch.tensor([[1.0, 2, 0], [0, 1, -1]]), torch.tensor([1.0, 1, 3])
# for row in weight:
#     print(row, "·", x, "=", (row * x).sum())

# %% [markdown] tags=["hint"]
# The weight is stored as `(out, in)`, but vectors stand in rows: which of the two has to be turned?

# %% [markdown] tags=["hint"]
# `x @ self.weight.T` serves any number of leading dimensions. `torch.empty(out, in, device=device, dtype=dtype)`
# makes room for the weight.

# %% [markdown] tags=["hint"]
# `nn.init.trunc_normal_(weight, mean=0.0, std=sigma, a=-3 * sigma, b=3 * sigma)`. The bounds are numbers, not
# multiples of the standard deviation.

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class Linear(nn.Module):
    """A matrix applied to the last dimension of x, without a bias.

    The weight is normal with variance 2 / (in_features + out_features), truncated at three standard deviations:
    Glorot, Bengio 2010, https://proceedings.mlr.press/v9/glorot10a.html.
    """

    def __init__(self, in_features: int, out_features: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        std = math.sqrt(2 / (in_features + out_features))
        nn.init.trunc_normal_(self.weight, std=std, a=-3 * std, b=3 * std)
        ### END SOLUTION

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        """The product of the weight with each vector of x."""
        ### BEGIN SOLUTION
        return x @ self.weight.T
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why this variance.** A sum of $n_{\mathrm{in}}$ products keeps the size of its inputs if the weights have variance
# $1/n_{\mathrm{in}}$. On the way back the sum has $n_{\mathrm{out}}$ terms and wants $1/n_{\mathrm{out}}$. The mean of
# the two widths is a compromise for both.
#
# **Why truncated.** In a matrix of ten million normal numbers a few are five times too large. Cutting the tails removes
# them; at $3\sigma$ the standard deviation shrinks by about one percent.
#
# **Why `(out, in)`.** One row holds all that makes one output: `weight[o] @ x`. Checkpoints are stored that way.
#
# **What it costs.** $O(b\, n_{\mathrm{in}}\, n_{\mathrm{out}})$ time for $b$ vectors. The weight takes
# $4\, n_{\mathrm{in}}\, n_{\mathrm{out}}$ bytes in float32. Nothing is stored but the result: the backward pass needs
# the input and the weight, which are there anyway.
#
# ## The other formulation
#
# `torch.einsum("...i,oi->...o", x, self.weight)` names the axes and needs no transpose.
#
# ## The usual mistakes
#
# - The variance given as the standard deviation.
# - `a=-3, b=3`: the bounds of `trunc_normal_` are absolute.
# - A plain tensor instead of `nn.Parameter`: it is not trained, not saved, and does not move to the GPU.
# - `super().__init__` not called, or called only after the first parameter is set.
# - The dtype of the constructor forgotten.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# - **What does it cost?** $2 \cdot n_{\mathrm{in}} \cdot n_{\mathrm{out}}$ operations for each vector forwards, and
#   twice that backwards.
# - **What are the gradients?** $\partial L/\partial x = W^\top g$, and $\partial L/\partial W = \sum g x^\top$ over
#   all vectors.
# - **Why no bias?** Norms and residuals make it nearly useless, and it complicates sharding.
# - **When is it limited by memory and not by arithmetic?** When few vectors share the weight: in decoding, each
#   number of $W$ is read once for two operations.
