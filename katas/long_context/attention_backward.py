# %% [markdown]
# # The backward pass of attention
#
# $$P = e^{S - \mathrm{lse}}, \qquad D_i = dO_i \cdot O_i, \qquad dV = P^\top dO, \qquad
# dS = P \circ (dO\, V^\top - D), \qquad dQ = \frac{dS\, K}{\sqrt{d_k}}, \qquad dK = \frac{dS^\top Q}{\sqrt{d_k}}$$
#
# What every attention kernel does on its way back: no weights were kept, only `out` and `lse`, and the weights are made
# again from those. $S = Q K^\top / \sqrt{d_k}$.
#
# **Write** `attention_backward(q, k, v, out, lse, grad_out, causal=False)`. `q` has shape `(..., s, d_k)`, `k` has
# `(..., t, d_k)` and `v` has `(..., t, d_v)`; `out` and `grad_out` have `(..., s, d_v)`, `lse` has `(..., s)`. What
# stands for `...` is the same in all of them. The results are a tuple `(grad_q, grad_k, grad_v)`, of the shapes of `q`,
# `k` and `v`, by the formulas above.
#
# - **`causal`** lets the last query see all keys, the query before it all but one, and so on: query $i$ sees key $j$
#   where $j \le t - s + i$. Hidden entries of $P$ are 0, even where their scores are so far above `lse` that the
#   exponential overflows.
# - **`out` and `lse`** are taken as they are given. They may come from more keys than these, as where the keys are
#   split over devices: rows of $P$ then sum to less than 1. Nor need `lse` be above the scores. The formulas hold all
#   the same.
# - **No graph.** The results carry none, whatever the inputs do. `torch.no_grad` and `detach` are allowed; the
#   grad mode is left as it was.
# - **Dtype.** The results have the dtype of `q`. `lse` is float32 where the others are float16 or bfloat16, and is not
#   to be rounded. Exponentials and sums are float32; scores, weights and $dS$ may be rounded to the dtype of the inputs
#   before a product. float64 in, float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops; matrices of $s \cdot t$ are allowed.
# - **A `ValueError`** whose message holds both lengths: `causal` with fewer keys than queries.
# - **Not graded:** no keys or no queries at all, leading axes that broadcast.
#
# Not allowed: autograd in any form (`torch.autograd`, `torch.func`, `.backward()`), `softmax`, fused attention.
#
# **Example.** The query $(2)$, the keys $(\ln 3 / 2)$ and $(0)$ with the values $4$ and $8$, and $dO = 1$. The scores
# are $\ln 3$ and $0$, so `lse` is $\ln 4$, $P = (3/4, 1/4)$ and `out` is $5$. $D = 5$ and
# $dS = (\tfrac34 (4 - 5), \tfrac14 (8 - 5)) = (-\tfrac34, \tfrac34)$. Then $dV = (\tfrac34, \tfrac14)$,
# $dQ = -\tfrac34 \cdot \ln 3 / 2 = -0.41198$ and $dK = (-\tfrac32, \tfrac32)$.
#
# **Builds on** flash_attention. **Sources:** Dao 2023: FlashAttention-2, algorithm 2,
# [arXiv:2307.08691](https://arxiv.org/abs/2307.08691); Dao et al. 2022: FlashAttention, appendix B,
# [arXiv:2205.14135](https://arxiv.org/abs/2205.14135).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# query, keys, values, grad = 2.0, (math.log(3) / 2, 0.0), (4.0, 8.0), 1.0
# lse, output = math.log(4), 5.0
# weights = [math.exp(query * key - lse) for key in keys]
# grad_scores = [p * (grad * value - grad * output) for p, value in zip(weights, values)]
# print("weights", weights, "gradient of the scores", grad_scores)
# print("grad_q", sum(g * key for g, key in zip(grad_scores, keys)), "grad_k", [g * query for g in grad_scores])

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor


# %%
def attention_backward(
    q: Float[Tensor, "*batch q_len d_k"],
    k: Float[Tensor, "*batch k_len d_k"],
    v: Float[Tensor, "*batch k_len d_v"],
    out: Float[Tensor, "*batch q_len d_v"],
    lse: Float[Tensor, "*batch q_len"],
    grad_out: Float[Tensor, "*batch q_len d_v"],
    causal: bool = False,
) -> tuple[Float[Tensor, "*batch q_len d_k"], Float[Tensor, "*batch k_len d_k"], Float[Tensor, "*batch k_len d_v"]]:
    """The gradients of queries, keys and values, from what the forward pass has kept: out and lse.

    lse is float32 at least. The results have the dtype of q, and no graph. Dao 2023, arXiv:2307.08691, algorithm 2.

    Raises:
        ValueError: causal queries outnumber their keys.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("attention_backward")
