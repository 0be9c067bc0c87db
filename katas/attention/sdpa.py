# %% [markdown]
# # Scaled dot-product attention
#
# $$\mathrm{attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# Attention is a soft lookup. A query is compared with every key. The scores become weights that sum to 1,
# and the answer is the weighted mean of the values.
#
# **Write** `scaled_dot_product_attention(q, k, v, mask=None)`.
#
# - **`q`** has shape `(..., s, d_k)`, **`k`** `(..., t, d_k)`, **`v`** `(..., t, d_v)`. The result is `(..., s, d_v)`.
# - **Leading dimensions broadcast**, as in `torch.matmul`: `q` may be `(2, 1, s, d_k)` and `k` `(3, t, d_k)`. There may
#   also be none.
# - **`mask`** is boolean, True = may attend. It broadcasts against `(..., s, t)`, and has at least two dimensions. A
#   masked key has no influence, however large or small the scores are.
# - **A query that may attend to nothing** gets exact zeros, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the inputs. With float16 or bfloat16 softmax is computed in float32. The
#   scores before it and the weights after it may be rounded to the dtype of the inputs, as Llama does. float64 in,
#   float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow back to `q`, `k` and `v`.
# - **No loops** over batch, queries or keys.
# - **Not graded**: masks of one dimension or of another dtype than bool, and no keys at all.
#
# Not allowed: fused attention, such as `F.scaled_dot_product_attention` or `nn.MultiheadAttention`.
# `torch.softmax` is allowed.
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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# query, keys, values = 2.0, (math.log(3) / 2, 0.0), (4.0, 8.0)
# exponentials = [math.exp(query * key) for key in keys]
# weights = [e / sum(exponentials) for e in exponentials]
# print("weights", weights, "result", sum(w * v for w, v in zip(weights, values)))

# %%
import math

import torch
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

    The mask is True where attention is allowed; a query that may attend to nothing gets zeros. Scores and softmax are
    computed in float32 at least. Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("sdpa")
