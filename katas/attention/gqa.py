# %% [markdown]
# # Grouped-query attention
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K_{g(h)}^\top}{\sqrt{d}}\right) V_{g(h)}, \qquad
# g(h) = \left\lfloor \frac{h}{H / G} \right\rfloor$$
#
# There are $H$ query heads and $G$ key/value heads.
# Each key/value head serves a group of $H / G$ **neighbouring** query heads.
# With $G = H$ this is multi-head attention, with $G = 1$ multi-query attention.
#
# **Write** `GroupedQueryAttention(d_model, num_heads, num_kv_heads, *, device=None, dtype=None)` with
# `forward(x, mask=None)`.
#
# - **`x`** has shape `(batch, seq, d_model)`; the result has the same. Queries, keys and values all come from `x`.
# - **`head_dim`** is `d_model / num_heads`. It is the $d$ of the formula.
# - **Parameters**, and no others, stored `(out_features, in_features)`, without biases:
#   - `q_proj.weight` and `o_proj.weight`, each `(d_model, d_model)`;
#   - `k_proj.weight` and `v_proj.weight`, each `(num_kv_heads * head_dim, d_model)`.
#
#   `nn.Linear(bias=False)` is allowed. Initialise them as you like.
# - **Heads.** Query head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of the query weight.
#   Key/value head `g` owns the rows `g * head_dim ... (g + 1) * head_dim - 1` of the key and value weights.
#   Query head `h` reads key/value head `h // (num_heads // num_kv_heads)`.
#   Its output stands in the places of its rows when the heads are joined.
# - **`mask`** is boolean, True = may attend. It broadcasts against `(batch, num_heads, seq, seq)` and has two to four
#   dimensions. It may differ from query head to query head. A masked key has no influence, however large or small the
#   scores are.
# - **A query that may attend to nothing** gets exact zeros, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 softmax is computed in float32. The
#   scores before it and the weights after it may be rounded to the dtype of the inputs, as Llama does. float64 in,
#   float64 out; float32 accuracy is enough.
# - **Errors.** If `num_heads` is not a multiple of `num_kv_heads`, or `d_model` is not a multiple of `num_heads`: a
#   `ValueError` that holds both numbers, when the module is built or called.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over heads, groups or batch.
# - **Not graded**: masks of one dimension or of another dtype than bool, inputs of another dtype than the parameters,
#   and heads below 1.
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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# num_heads, num_kv_heads, values = 4, 2, (5, 7)  # a value for each group
# group_size = num_heads // num_kv_heads
# for head in range(num_heads):
#     print(f"query head {head} reads group {head // group_size}: {values[head // group_size]}")

# %%
import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
class GroupedQueryAttention(nn.Module):
    """Self-attention in which each key/value head serves a group of neighbouring query heads.

    Scores, softmax and weighted mean are computed in float32 at least. Raises ValueError if num_heads does not divide
    d_model, or num_kv_heads does not divide num_heads. Ainslie et al. 2023, arXiv:2305.13245.
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
