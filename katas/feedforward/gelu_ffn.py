# %% [markdown]
# # Feed-forward layer with GELU
#
# $$\mathrm{ffn}(x) = W_2\, \mathrm{dropout}\big(\mathrm{gelu}(W_1 x + b_1)\big) + b_2, \qquad
# \mathrm{gelu}(z) = z \cdot \tfrac12 \Big(1 + \mathrm{erf}\big(z / \sqrt 2\big)\Big)$$
#
# Attention moves information between tokens. The feed-forward layer works on each token alone: it widens the vector,
# bends it, and narrows it again. It holds about two thirds of the weights of a transformer.
#
# **Write** `FeedForward(d_model, d_ff, dropout=0.0, *, device=None, dtype=None)` with `forward(x)`,
# from `(..., d_model)` to `(..., d_model)`.
#
# - **Parameters**, and no others: `fc1.weight` `(d_ff, d_model)`, `fc1.bias` `(d_ff,)`, `fc2.weight` `(d_model, d_ff)`,
#   `fc2.bias` `(d_model,)`. Initialise them as you like.
# - **gelu** is the exact function, with erf, not the approximation with tanh.
# - **Dropout** acts on the hidden vector, after gelu, and **only in training mode**: each entry is set to 0 with
#   probability `dropout`, and the others are divided by `1 - dropout`. Every call draws anew, and no gradient flows
#   through an entry that was dropped. In evaluation mode nothing is dropped or scaled. Dropout on the result instead,
#   after the second layer, as in BERT and GPT-2, is right too.
# - **`dropout=1.0`** drops every entry: the result and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 gelu is computed in float32.
#   float64 in, float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops.
# - **Not graded:** a `dropout` outside 0 to 1.
#
# No operation is forbidden.
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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from statistics import NormalDist
#
# for x in (1.0, -1.0):
#     hidden = x * NormalDist().cdf(x)
#     print(f"x {x:4}: gelu {hidden:.3f}, result {hidden + 0.5:.3f}; with dropout 0.5: 0.5 or {2 * hidden + 0.5:.3f}")

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


# %%
class FeedForward(nn.Module):
    """fc2(dropout(gelu(fc1 x))), each token for itself; dropout in training mode alone.

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
