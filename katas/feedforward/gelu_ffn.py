# %% [markdown]
# # Feed-forward layer with GELU
#
# $$\mathrm{ffn}(x) = W_2\, \mathrm{dropout}\big(\mathrm{gelu}(W_1 x + b_1)\big) + b_2, \qquad
# \mathrm{gelu}(z) = z \cdot \tfrac12 \Big(1 + \mathrm{erf}\big(z / \sqrt 2\big)\Big)$$
#
# Attention moves information between tokens. The feed-forward layer works on each token alone: it widens the vector,
# applies an activation, and narrows it again. BERT and GPT-2 are built so.
#
# **Write** `FeedForward(d_model, d_ff, dropout=0.0, *, device=None, dtype=None)` with `forward(x)`, from
# `(..., d_model)` to the same shape.
#
# Its parameters are `fc1.weight` `(d_ff, d_model)`, `fc1.bias` `(d_ff,)`, `fc2.weight` `(d_model, d_ff)` and `fc2.bias`
# `(d_model,)`. No operation is forbidden.
#
# **Example.** `d_model = d_ff = 1`, all weights 1, `fc1.bias` 0, `fc2.bias` 0.5. Half of a normal distribution lies
# below 0 and 0.841 of it below 1. So `gelu(1)` is 0.841 and the layer gives 1.341 for 1. For -1 it gives
# $-1 \cdot 0.159 + 0.5 = 0.341$. With `dropout=0.5` in training, 1 gives either $0.5$ or $2 \cdot 0.841 + 0.5 = 2.183$.
#
# **Builds on** linear, activations. **Sources:** Vaswani et al. 2017: Attention is all you need, section 3.3,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762); Hendrycks, Gimpel 2016: Gaussian error linear units,
# [arXiv:1606.08415](https://arxiv.org/abs/1606.08415); Srivastava et al. 2014: Dropout,
# https://jmlr.org/papers/v15/srivastava14a.html.
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: GELU, Dropout, Dropout of 1, Half precision</summary>
#
# - **GELU.** The exact function with erf, not the tanh approximation.
# - **Dropout.** In training mode alone, each entry on its own: 0 with probability `dropout`, else divided by
#   `1 - dropout`. Every call draws anew, and no gradient flows through an entry that was dropped. It acts after gelu,
#   or after `fc2` as in BERT and GPT-2.
# - **Dropout of 1.** It drops everything; values and gradients stay finite.
# - **Half precision.** erf and `1 + erf` in float32. The product with `z` may be rounded once more.
#
# </details>

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


# %%
class FeedForward(nn.Module):
    """fc2(dropout(gelu(fc1 x))) for each token alone; dropout in training mode alone.

    Vaswani et al. 2017, arXiv:1706.03762, section 3.3, with the exact gelu of Hendrycks, Gimpel 2016.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """The layer applied to each vector of x."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("gelu_ffn")
