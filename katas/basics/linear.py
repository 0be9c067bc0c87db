# %% [markdown]
# # Linear layer
#
# $$y = W x, \qquad y_o = \sum_i W_{oi}\, x_i$$
#
# Nearly all weights of a transformer sit in layers like this one. It mixes the entries of each vector, the same way for
# every token. Modern models leave out the bias.
#
# **Write** `Linear(in_features, out_features, *, device=None, dtype=None)` with `forward(x)`, from `(..., in_features)`
# to `(..., out_features)`. Its one parameter is `weight`, stored `(out_features, in_features)`.
#
# Not allowed: `nn.Linear`, `F.linear`, `nn.Bilinear`. Products such as `@`, `torch.matmul` and `torch.einsum` are
# allowed.
#
# **Example.** With `weight` = `[[1, 2, 0], [0, 1, -1]]` and $x = (1, 1, 3)$ the result is $(1 + 2, 1 - 3) = (3, -2)$.
#
# **Sources:** Glorot, Bengio 2010: Understanding the difficulty of training deep feedforward neural networks,
# https://proceedings.mlr.press/v9/glorot10a.html.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Initialization</summary>
#
# - **Initialization.** A normal of mean 0 and variance $2 / (\text{in\_features} + \text{out\_features})$, truncated at
#   three standard deviations, as `nn.init.trunc_normal_` draws it. Two layers draw different numbers.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# weight, x = torch.tensor([[1.0, 2, 0], [0, 1, -1]]), torch.tensor([1.0, 1, 3])
# for row in weight:
#     print(row, "·", x, "=", (row * x).sum())

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
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch in_features"]) -> Float[Tensor, "*batch out_features"]:
        """The product of the weight with each vector of x."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("linear")
