# %% [markdown]
# # Multi-head attention
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K_h^\top}{\sqrt{d}}\right) V_h, \qquad
# \mathrm{out} = [\mathrm{head}_0, \dots, \mathrm{head}_{H-1}]\, W_O^\top$$
#
# Each token asks a question, its query. It compares the query with the keys of all tokens,
# and takes a weighted mean of their values.
# Several heads do this side by side, each on its own slice of `head_dim = d_model / num_heads` entries.
#
# **Write** `MultiHeadAttention(d_model, num_heads, *, device=None, dtype=None)` with
# `forward(x, context=None, mask=None)`.
#
# - **Queries** come from `x`, of shape `(batch, q_len, d_model)`.
# - **Keys and values** come from `context`, of shape `(batch, k_len, d_model)`. Without a context they come from `x`.
# - **The result** has shape `(batch, q_len, d_model)`.
# - **Parameters**, and no others: `q_proj.weight`, `k_proj.weight`, `v_proj.weight`, `o_proj.weight`, each
#   `(d_model, d_model)`, stored `(out_features, in_features)`. No biases. `nn.Linear(bias=False)` is allowed.
#   Initialise them as you like.
# - **Heads.** Head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of the query, key and value weights.
#   Its output stands in the same places when the heads are joined.
# - **Scale.** $d$ in the formula is `head_dim`.
# - **`mask`** is boolean, True = may attend. It broadcasts against `(batch, num_heads, q_len, k_len)`. It has two to
#   four dimensions: `(q_len, k_len)` and `(batch, 1, 1, k_len)` are common. A masked key has no influence, however
#   large or small the scores are.
# - **A query that may attend to nothing** gets exact zeros, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 softmax is computed in float32. The
#   scores before it and the weights after it may be rounded to the dtype of the inputs, as Llama does. float64 in,
#   float64 out; float32 accuracy is enough.
# - **Errors.** If `d_model` is not a multiple of `num_heads`: a `ValueError` that holds both, when the module is built
#   or called.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over heads or batch.
# - **Not graded**: masks of one dimension or of another dtype than bool, inputs of another dtype than the parameters,
#   and `num_heads` below 1.
#
# Not allowed: `nn.MultiheadAttention`, and fused attention such as `F.scaled_dot_product_attention`.
# `torch.softmax` is allowed.
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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# tokens = ((0, 1), (1, 1))  # the projections change nothing: each head sees one entry of each token
# for head in range(2):
#     seen = [token[head] for token in tokens]
#     for query in seen:
#         exponentials = [math.exp(query * key) for key in seen]
#         weights = [e / sum(exponentials) for e in exponentials]
#         print(f"head {head}, query {query}: {sum(w * v for w, v in zip(weights, seen)):.3f}")

# %%
import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
class MultiHeadAttention(nn.Module):
    """Attention of x to itself or to a context, in parallel heads.

    Scores, softmax and weighted mean are computed in float32 at least. Raises ValueError if the heads do not divide
    d_model. Vaswani et al. 2017, arXiv:1706.03762, section 3.2.2.
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
