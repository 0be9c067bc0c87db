# %% [markdown]
# # Pre-norm and post-norm blocks
#
# $$\text{pre:}\quad h = x + \mathrm{attn}(\mathrm{norm}_a(x)), \qquad y = h + \mathrm{ffn}(\mathrm{norm}_f(h))$$
#
# $$\text{post:}\quad h = \mathrm{norm}_a(x + \mathrm{attn}(x)), \qquad y = \mathrm{norm}_f(h + \mathrm{ffn}(h))$$
#
# A block is attention, which moves information between tokens, and a feed-forward layer, which works on each token.
# Each is added to its own input. The two blocks differ only in where the normalisation stands:
# on the branch (pre), or on the sum (post).
#
# **Write** `PreNormBlock(d_model, num_heads, d_ff, *, device=None, dtype=None)` and `PostNormBlock` with the same
# arguments. Both have `forward(x, mask=None)`, from `(batch, seq, d_model)` to the same shape.
#
# The parts, with exactly these parameters, stored `(out_features, in_features)`, without biases:
#
# - **`attn`**: multi-head self-attention as in the kata **mha**. `attn.q_proj.weight`, `attn.k_proj.weight`,
#   `attn.v_proj.weight`, `attn.o_proj.weight`, each `(d_model, d_model)`. Head `h` owns the rows
#   `h * head_dim ... (h + 1) * head_dim - 1`; the scores are divided by $\sqrt{\text{head\_dim}}$.
# - **`ffn`**: $W_2(\mathrm{silu}(W_1 x) \odot W_3 x)$ as in **swiglu**. `ffn.w1.weight` and `ffn.w3.weight`, each
#   `(d_ff, d_model)`; `ffn.w2.weight`, `(d_model, d_ff)`.
# - **`attn_norm`**, **`ffn_norm`**: $x / \sqrt{\mathrm{mean}(x^2) + \varepsilon} \odot w$ over the last dimension,
#   with $\varepsilon = 10^{-5}$, as in **rmsnorm**. `attn_norm.weight` and `ffn_norm.weight`, each `(d_model,)`, ones.
#
# The stub holds only the two blocks. Write the parts yourself, under any class names, or import your own, for example
# `from mha import MultiHeadAttention`. Only the names of the parameters count.
#
# - **`mask`** is boolean, True = may attend. It is `(seq, seq)`, or has four dimensions and broadcasts against
#   `(batch, num_heads, seq, seq)`. In the robust tier it may also be `(num_heads, seq, seq)`, and there may be queries
#   that attend to nothing: such a query gets exact zeros from the attention, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. float64 in, float64 out; float32 accuracy is enough. With
#   float16 or bfloat16, norms ($300^2$ is beyond float16) and softmax are computed in float32. Scores, weights, silu
#   and the gated product may each be rounded once more.
# - **Errors.** If `d_model` is not a multiple of `num_heads`: a `ValueError` that holds both, at construction or at
#   the call.
# - **Inputs are not modified**: `x += ...` would change the caller's tensor. They may be non-contiguous or expanded.
#   No loops over heads or batch.
#
# - **Not graded:** masks of one dimension or of another dtype, empty batches, and how matrices are initialised.
#
# No operation of PyTorch is forbidden, and the computation stays in it.
#
# **Example.** Set `attn.o_proj.weight` and `ffn.w2.weight` to zero: both branches are now silent. Take $x = (3, 4)$.
# The pre-norm block returns $(3, 4)$. The post-norm block normalises: $\sqrt{(9 + 16)/2} = 3.536$, and it returns
# $(0.849, 1.131)$.
#
# **Builds on** mha, swiglu, rmsnorm. **Sources:** Xiong et al. 2020: On layer normalization in the transformer
# architecture, [arXiv:2002.04745](https://arxiv.org/abs/2002.04745); Zhang, Sennrich 2019: Root mean square layer
# normalization, [arXiv:1910.07467](https://arxiv.org/abs/1910.07467).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# x = (3.0, 4.0)  # both branches silent
# root = math.sqrt(sum(v * v for v in x) / len(x))
# print("pre-norm adds nothing:", x)
# print("post-norm still normalises:", [round(v / root, 3) for v in x])

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
class PreNormBlock(nn.Module):
    """x + attn(norm(x)), then x + ffn(norm(x)). Norms and softmax are computed in float32 at least.

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
