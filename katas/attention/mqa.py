# %% [markdown]
# # Multi-query attention
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K^\top}{\sqrt{d}}\right) V, \qquad
# \mathrm{out} = [\mathrm{head}_0, \dots, \mathrm{head}_{H-1}]\, W_O^\top$$
#
# All query heads share **one** key head and one value head: $K$ and $V$ have no index $h$. The KV cache is `num_heads`
# times smaller, and reading the cache is what makes decoding slow.
#
# **Write** `MultiQueryAttention(d_model, num_heads, *, device=None, dtype=None)` with `forward(x, mask=None)`, from
# `(batch, seq, d_model)` to the same shape. `mask` is boolean, True = may attend, and broadcasts against
# `(batch, num_heads, seq, seq)`.
#
# `q_proj` and `o_proj` have weights `(d_model, d_model)`, `k_proj` and `v_proj` `(head_dim, d_model)` with $d$ =
# `head_dim` = `d_model / num_heads`; no biases. Each query head is a block of neighboring rows.
#
# No operation is forbidden, but the point is to write attention out.
#
# **Example.** `d_model = 2`, `num_heads = 2`.
# Let `q_proj` and `o_proj` be the identity, and `k_proj` and `v_proj` both `[[1, 0]]`.
# Take two tokens $x = ((0, 0), (1, 2))$. The shared keys and values are $0$ and $1$.
# Token 0 has query 0 in both heads, so both take the mean, $0.5$.
# Token 1 has query 1 in head 0 and query 2 in head 1, with weights $0.731$ and $0.881$ on the value 1.
# The result is `[[0.5, 0.5], [0.731, 0.881]]`.
#
# **Builds on** mha. **Sources:** Shazeer 2019: Fast transformer decoding: one write-head is all you need,
# [arXiv:1911.02150](https://arxiv.org/abs/1911.02150).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Masks, Copies, Half precision, Errors</summary>
#
# - **Masks.** They have two to four dimensions, and may differ from head to head. A masked key has no influence,
#   however large or small the scores are.
# - **Copies.** Keys and values serve all heads by broadcasting, not by `repeat`, `repeat_interleave` or `tile`.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# queries, shared = ((0, 0), (1, 2)), (0, 1)  # queries by token and head; one key and value a token for both heads
# for token, heads in enumerate(queries):
#     for head, query in enumerate(heads):
#         exponentials = [math.exp(query * key) for key in shared]
#         result = sum(e * value for e, value in zip(exponentials, shared)) / sum(exponentials)
#         print(f"token {token}, head {head}: {result:.3f}")

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
class MultiQueryAttention(nn.Module):
    """Self-attention whose query heads all share one key head and one value head.

    Softmax is computed in float32 at least. Raises ValueError if the heads do not divide d_model. Shazeer 2019,
    arXiv:1911.02150.
    """

    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
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
# check("mqa")
