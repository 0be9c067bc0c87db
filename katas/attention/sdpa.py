# %% [markdown]
# # Scaled dot-product attention
#
# $$\mathrm{attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# Attention is a soft lookup: a query is compared with every key, the scores become weights that sum to 1, and the
# answer is the weighted mean of the values. All of a transformer's mixing between tokens is this.
#
# **Write** `scaled_dot_product_attention(q, k, v, mask=None)`: `q` has shape `(..., s, d_k)`, `k` `(..., t, d_k)`, `v`
# `(..., t, d_v)`, and the result `(..., s, d_v)`. `mask` is boolean, True = may attend, and broadcasts against
# `(..., s, t)`.
#
# Not allowed: fused attention, such as `F.scaled_dot_product_attention` or `nn.MultiheadAttention`. `torch.softmax` is
# allowed.
#
# **Example.** One query $(2)$, two keys $(\ln 3 / 2)$ and $(0)$ with values $4$ and $8$.
# Here $d_k = 1$, so the scale is 1. The scores are $\ln 3$ and $0$. Their exponentials are $3$ and $1$.
# The weights are $3/4$ and $1/4$, and the result is $3 + 2 = 5$.
# With the second key masked it is $4$, and with both masked $0$.
#
# **Builds on** softmax. **Sources:** Vaswani et al. 2017: Attention is all you need, section 3.2.1,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Masked rows, Masked keys, Broadcasting, Half precision</summary>
#
# - **Masked rows.** A query that may attend to nothing gets exact zeros, and all gradients stay finite.
# - **Masked keys.** They have no influence, however large or small the scores are.
# - **Broadcasting.** Leading dimensions broadcast as in `torch.matmul`: `q` may be `(2, 1, s, d_k)` and `k`
#   `(3, t, d_k)`. There may be none.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
#
# </details>

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


# %%
def scaled_dot_product_attention(
    q: Float[Tensor, "*#batch q_len d_k"],
    k: Float[Tensor, "*#batch k_len d_k"],
    v: Float[Tensor, "*#batch k_len d_v"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
) -> Float[Tensor, "*batch q_len d_v"]:
    """The mean of the values, weighted by the softmax of the scaled products of queries and keys.

    The mask is True where attention is allowed; a query that may attend to nothing gets zeros. Softmax is computed in
    float32 at least. Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("sdpa")
