# %% [markdown]
# # Multi-head attention
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K_h^\top}{\sqrt{d}}\right) V_h, \qquad
# \mathrm{out} = [\mathrm{head}_0, \dots, \mathrm{head}_{H-1}]\, W_O^\top$$
#
# Each token compares its query with the keys of all tokens and takes the weighted mean of their values. Several heads
# do so side by side, each with its own block of $d$ = `head_dim` = `d_model / num_heads` entries.
#
# **Write** `MultiHeadAttention(d_model, num_heads, *, device=None, dtype=None)` with
# `forward(x, context=None, mask=None)`, from `(batch, q_len, d_model)` to the same shape. Keys and values come from
# `context`, `(batch, k_len, d_model)`, or without one from `x`. `mask` is boolean, True = may attend, and broadcasts
# against `(batch, num_heads, q_len, k_len)`.
#
# `q_proj`, `k_proj`, `v_proj` and `o_proj` have weights `(d_model, d_model)` and no biases; `nn.Linear` is allowed.
# Head `h` is the `h`-th block of queries, keys, values and of the joined result.
#
# Not allowed: `nn.MultiheadAttention` and fused attention, such as `F.scaled_dot_product_attention`.
#
# **Example.** `d_model = 2`, `num_heads = 2`, all four weights the identity, and two tokens: $x = ((0, 1), (1, 1))$.
# Each head sees one entry of each token. Head 0 sees 0 and 1.
# Its token 0 has query 0, so both scores are 0, and it takes the mean, $0.5$.
# Its token 1 has scores 0 and 1, weights $0.269$ and $0.731$, and takes $0.731$.
# Head 1 sees only ones. The result is `[[0.5, 1], [0.731, 1]]`.
#
# **Builds on** softmax, linear, sdpa. **Sources:** Vaswani et al. 2017: Attention is all you need, section 3.2.2,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Masks, Masked rows, Half precision, Errors</summary>
#
# - **Masks.** They have two to four dimensions, and may differ from head to head. A masked key has no influence,
#   however large or small the scores are.
# - **Masked rows.** For a query that may attend to nothing a head gives exact zeros, and all gradients stay finite.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call.
#
# </details>

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
class MultiHeadAttention(nn.Module):
    """Attention of x to itself or to a context, in parallel heads.

    Softmax is computed in float32 at least. Raises ValueError if the heads do not divide d_model. Vaswani et al. 2017,
    arXiv:1706.03762, section 3.2.2.
    """

    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(
        self,
        x: Float[Tensor, "*batch q_len d_model"],
        context: Float[Tensor, "*batch k_len d_model"] | None = None,
        mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
    ) -> Float[Tensor, "*batch q_len d_model"]:
        """Queries from x; keys and values from the context, or from x. The mask is True where attention is allowed."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("mha")
