# %% [markdown]
# # Sinusoidal and learned positions
#
# $$y_p = x_p + T_p, \qquad T_{p, 2i} = \sin\!\big(p / 10000^{2i/d}\big), \quad
# T_{p, 2i+1} = \cos\!\big(p / 10000^{2i/d}\big)$$
#
# Attention does not know the order of its tokens. The simplest remedy is to add a vector to each token that says where
# it stands. In 2017 these vectors were sines and cosines of many speeds. BERT and GPT-2 learned them instead.
#
# **Write** two modules whose `forward(x)` adds the first `seq` rows of a table to `x` of shape `(..., seq, d_model)`:
#
# - `SinusoidalPositions(max_len, d_model, *, device=None, dtype=None)`: the table above, without parameters;
# - `LearnedPositions(max_len, d_model, *, device=None, dtype=None)`: the table is the parameter `weight`, of shape
#   `(max_len, d_model)`.
#
# **Example.** With `d_model = 4` the speeds are $1$ and $10000^{-2/4} = 0.01$. Row 0 of the table is $(0, 1, 0, 1)$.
# Row 2 is $(\sin 2, \cos 2, \sin 0.02, \cos 0.02) = (0.909, -0.416, 0.020, 1.000)$.
#
# **Builds on** embedding. **Sources:** Vaswani et al. 2017: Attention is all you need, section 3.5,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762); Devlin et al. 2018: BERT,
# [arXiv:1810.04805](https://arxiv.org/abs/1810.04805).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Far positions, Initialization</summary>
#
# - **Far positions.** Angles in float32 at least, in a bfloat16 model too. The sum may be rounded as often as you like.
# - **Initialization.** `weight` is drawn from a normal of mean 0 and standard deviation 0.02, not truncated.
#
# </details>

# %%
import torch
from jaxtyping import Float
from torch import Tensor, nn


# %%
class SinusoidalPositions(nn.Module):
    """Add sines and cosines of the position to x. Vaswani et al. 2017, arXiv:1706.03762, section 3.5."""

    def __init__(self, max_len: int, d_model: int, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch seq d_model"]) -> Float[Tensor, "*batch seq d_model"]:
        """x plus the first rows of the table."""
        raise NotImplementedError


# %%
class LearnedPositions(nn.Module):
    """Add a learned vector for each position to x.

    The weight is normal with standard deviation 0.02. Devlin et al. 2018, arXiv:1810.04805.
    """

    def __init__(self, max_len: int, d_model: int, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(self, x: Float[Tensor, "*batch seq d_model"]) -> Float[Tensor, "*batch seq d_model"]:
        """x plus the first rows of the weight."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("absolute_positions")
