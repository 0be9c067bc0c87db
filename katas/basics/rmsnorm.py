# %% [markdown]
# # RMSNorm
#
# $$y_i = \frac{x_i}{\sqrt{\frac1n \sum_j x_j^2 + \varepsilon}} \cdot w_i$$
#
# Activations grow and shrink from layer to layer. A norm brings every vector to the same length, up to a learned factor
# for each entry. RMSNorm divides by the root mean square of the last dimension and subtracts nothing. Llama, Qwen and
# most models since normalize so.
#
# **Write** `RMSNorm(d_model, eps=1e-5, *, device=None, dtype=None)` with `forward(x)`, from `(..., d_model)` to the
# same shape. Its one parameter is `weight`, of shape `(d_model,)`, ones at first.
#
# Not allowed: `nn.RMSNorm`, `F.rms_norm`, `nn.LayerNorm`, `F.layer_norm`.
#
# **Example.** $x = (3, 4)$ has the mean square 12.5 and the root 3.536. With ones as weight the result is
# $(0.849, 1.131)$. With `weight` = $(2, 1)$ it is $(1.697, 1.131)$.
#
# **Sources:** Zhang, Sennrich 2019: Root mean square layer normalization,
# [arXiv:1910.07467](https://arxiv.org/abs/1910.07467).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Eps, Half precision</summary>
#
# - **Eps.** It stands inside the root, and is added to every mean square: inputs as small as `eps` show it. A vector of
#   zeros gives zeros, with finite gradients.
# - **Half precision.** Square, mean and root in float32: the square of 300 is beyond float16. The normed vector may be
#   rounded before the weight multiplies, as Llama does, or after it.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x = (3.0, 4.0)
# root = math.sqrt(sum(v * v for v in x) / len(x))
# print("root mean square", round(root, 3))
# print([round(v / root, 3) for v in x], "with weight (2, 1):", [round(w * v / root, 3) for w, v in zip((2, 1), x)])

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class RMSNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) · weight over the last dimension, computed in float32 at least.

    Zhang, Sennrich 2019, arXiv:1910.07467.
    """

    def __init__(self, d_model: int, eps: float = 1e-5, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Each vector of x, scaled to a root mean square of 1 and then by the weight."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("rmsnorm")
