# %% [markdown]
# # Multi-query attention
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K^\top}{\sqrt{d}}\right) V, \qquad
# \mathrm{out} = [\mathrm{head}_0, \dots, \mathrm{head}_{H-1}]\, W_O^\top$$
#
# The queries have many heads. The keys and values have **one**, and all query heads share it:
# note that $K$ and $V$ have no index $h$.
# The cache of a decoder becomes `num_heads` times smaller, and reading the cache is what makes decoding slow.
#
# **Write** `MultiQueryAttention(d_model, num_heads, *, device=None, dtype=None)` with `forward(x, mask=None)`.
#
# - **`x`** has shape `(batch, seq, d_model)`; the result has the same. Queries, keys and values all come from `x`.
# - **`head_dim`** is `d_model / num_heads`. It is the $d$ of the formula.
# - **Parameters**, and no others, stored `(out_features, in_features)`, without biases:
#   - `q_proj.weight` and `o_proj.weight`, each `(d_model, d_model)`;
#   - `k_proj.weight` and `v_proj.weight`, each `(head_dim, d_model)`.
#
#   `nn.Linear(bias=False)` is allowed. Initialise them as you like.
# - **Heads.** Query head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of the query weight.
#   Its output stands in the same places when the heads are joined.
# - **`mask`** is boolean, True = may attend. It broadcasts against `(batch, num_heads, seq, seq)` and has two to four
#   dimensions. A masked key has no influence, however large or small the scores are.
# - **A query that may attend to nothing** gets exact zeros, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 softmax is computed in float32. The
#   scores before it and the weights after it may be rounded to the dtype of the inputs, as Llama does. float64 in,
#   float64 out; float32 accuracy is enough.
# - **Errors.** If `d_model` is not a multiple of `num_heads`: a `ValueError` that holds both, when the module is built
#   or called.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over heads or batch.
# - **Do not repeat** the keys and values for each head, by `repeat`, `repeat_interleave` or `tile`. Broadcasting serves
#   all heads: a plain `@` over a head axis of size 1 is right, although PyTorch may copy inside it.
# - **Not graded**: copies by `expand` and `reshape`, which is what `@` may do; masks of one dimension or of another
#   dtype than bool, inputs of another dtype than the parameters, and `num_heads` below 1.
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
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
class MultiQueryAttention(nn.Module):
    """Self-attention whose query heads all share one key head and one value head.

    Scores, softmax and weighted mean are computed in float32 at least. Raises ValueError if the heads do not divide
    d_model. Shazeer 2019, arXiv:1911.02150.
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
