# %% [markdown]
# # Grouped-query attention
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K_{g(h)}^\top}{\sqrt{d}}\right) V_{g(h)}, \qquad
# g(h) = \left\lfloor \frac{h}{H / G} \right\rfloor$$
#
# There are $H$ query heads and $G$ key/value heads, each of which serves a group of $H / G$ neighboring query heads.
# The KV cache is $H / G$ times smaller than in multi-head attention, $G = H$; multi-query attention has $G = 1$.
#
# **Write** `GroupedQueryAttention(d_model, num_heads, num_kv_heads, *, device=None, dtype=None)` with
# `forward(x, mask=None)`, from `(batch, seq, d_model)` to the same shape. `mask` is boolean, True = may attend, and
# broadcasts against `(batch, num_heads, seq, seq)`.
#
# `q_proj` and `o_proj` have weights `(d_model, d_model)`, `k_proj` and `v_proj` `(num_kv_heads * head_dim, d_model)`
# with $d$ = `head_dim` = `d_model / num_heads`; no biases. Each head is a block of neighboring rows.
#
# No operation is forbidden, but the point is to write attention out.
#
# **Example.** `d_model = 4`, `num_heads = 4`, `num_kv_heads = 2`, so `head_dim = 1` and a group has 2 query heads.
# Let `v_proj` be `[[1, 0, 0, 0], [0, 1, 0, 0]]` and `o_proj` the identity. Take a single token $x = (5, 7, 0, 0)$.
# It attends only to itself, with weight 1, so each head gives its value: 5 for group 0 and 7 for group 1.
# The result is `[5, 5, 7, 7]`. It is not `[5, 7, 5, 7]`.
#
# **Builds on** mha, mqa. **Sources:** Ainslie et al. 2023: GQA, training generalized multi-query transformer models,
# [arXiv:2305.13245](https://arxiv.org/abs/2305.13245).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Masks, Half precision, Errors</summary>
#
# - **Masks.** They have two to four dimensions, and may differ from query head to query head. A masked key has no
#   influence, however large or small the scores are.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
# - **Errors.** `d_model` no multiple of `num_heads`, `num_heads` no multiple of `num_kv_heads`, at construction or at
#   the call.
#
# </details>

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
class GroupedQueryAttention(nn.Module):
    """Self-attention in which each key/value head serves a group of neighboring query heads.

    Softmax is computed in float32 at least. Raises ValueError if num_heads does not divide d_model, or num_kv_heads
    does not divide num_heads. Ainslie et al. 2023, arXiv:2305.13245.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, *, device=None, dtype=None):
        raise NotImplementedError

    def forward(
        self, x: Float[Tensor, "*batch seq d_model"], mask: Bool[Tensor, "*#batch #seq #seq"] | None = None
    ) -> Float[Tensor, "*batch seq d_model"]:
        """Self-attention of x. The mask is True where attention is allowed."""
        raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("gqa")
