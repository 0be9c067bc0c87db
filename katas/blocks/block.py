# %% [markdown]
# # Pre-norm and post-norm blocks
#
# $$\text{pre:}\quad h = x + \mathrm{attn}(\mathrm{norm}_a(x)), \qquad y = h + \mathrm{ffn}(\mathrm{norm}_f(h))$$
#
# $$\text{post:}\quad h = \mathrm{norm}_a(x + \mathrm{attn}(x)), \qquad y = \mathrm{norm}_f(h + \mathrm{ffn}(h))$$
#
# The two differ only in where the norm stands: on the branch, which leaves the residual stream alone, or on the sum.
#
# **Write** `PreNormBlock(d_model, num_heads, d_ff, *, device=None, dtype=None)`, and `PostNormBlock` with the same
# arguments. Both have `forward(x, mask=None)`, from `(batch, seq, d_model)` to the same shape.
#
# The attention is that of **mha**, the feed-forward layer that of **swiglu**, the norms are those of **rmsnorm**, with
# $\varepsilon = 10^{-5}$. There are no biases:
#
# ```
# attn.{q_proj, k_proj, v_proj, o_proj}.weight   (d_model, d_model)
# ffn.{w1, w3}.weight, ffn.w2.weight             (d_ff, d_model), (d_model, d_ff)
# attn_norm.weight, ffn_norm.weight              (d_model,)
# ```
#
# The stub holds only the blocks: write their parts too, or import your own. No operation is forbidden.
#
# **Example.** Set `attn.o_proj.weight` and `ffn.w2.weight` to zero: both branches are silent. Take $x = (3, 4)$. The
# pre-norm block returns $(3, 4)$. The post-norm block normalizes: $\sqrt{(9 + 16)/2} = 3.536$, and it returns
# $(0.849, 1.131)$.
#
# **Builds on** mha, swiglu, rmsnorm. **Sources:** Xiong et al. 2020: On layer normalization in the transformer
# architecture, [arXiv:2002.04745](https://arxiv.org/abs/2002.04745); Zhang, Sennrich 2019: Root mean square layer
# normalization, [arXiv:1910.07467](https://arxiv.org/abs/1910.07467).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Mask, Norms, Half precision, Errors</summary>
#
# - **Mask.** Boolean, True = may attend. It broadcasts against `(batch, num_heads, seq, seq)` and has two to four
#   dimensions. A masked key has no influence, however large or low the scores are.
# - **Norms.** Their weights start as ones.
# - **Half precision.** Norms and softmax in float32: $300^2$ is beyond float16. Scores, weights and the gated product
#   may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x = (3.0, 4.0)  # both branches silent
# root = math.sqrt(sum(v * v for v in x) / len(x))
# print("pre-norm adds nothing:", x)
# print("post-norm still normalizes:", [round(v / root, 3) for v in x])

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
class PreNormBlock(nn.Module):
    """x + attn(norm(x)), then x + ffn(norm(x)). Norms and attention are computed in float32 at least.

    Raises ValueError if the heads do not divide d_model. Xiong et al. 2020, arXiv:2002.04745, table 1.
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "*batch seq d_model"], mask: Bool[Tensor, "*#batch #seq #seq"] | None = None
    ) -> Float[Tensor, "*batch seq d_model"]:
        """The block applied to x. The mask is True where attention is allowed."""
        raise NotImplementedError


# %%
class PostNormBlock(nn.Module):
    """norm(x + attn(x)), then norm(x + ffn(x)). Same parts, dtypes and errors as the pre-norm block."""

    def __init__(self, d_model: int, num_heads: int, d_ff: int, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "*batch seq d_model"], mask: Bool[Tensor, "*#batch #seq #seq"] | None = None
    ) -> Float[Tensor, "*batch seq d_model"]:
        """The block applied to x. The mask is True where attention is allowed."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("block")
