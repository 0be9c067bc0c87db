# %% [markdown]
# # The backward pass of attention
#
# $$P = e^{S - \mathrm{lse}}, \qquad D_i = dO_i \cdot O_i, \qquad dV = P^\top dO, \qquad
# dS = P \circ (dO\, V^\top - D), \qquad dQ = \frac{dS\, K}{\sqrt{d_k}}, \qquad dK = \frac{dS^\top Q}{\sqrt{d_k}}$$
#
# What every attention kernel does in backward: the forward pass kept no weights, only `out` and `lse`, the logarithm of
# each row's sum of exponentials, and the weights are recomputed from it. $S = Q K^\top / \sqrt{d_k}$.
#
# **Write** `attention_backward(q, k, v, out, lse, grad_out, causal=False)`, which gives a tuple
# `(grad_q, grad_k, grad_v)`. `q` has shape `(..., s, d_k)`, `k` `(..., t, d_k)` and `v` `(..., t, d_v)`; `out` and
# `grad_out` have `(..., s, d_v)`, `lse` has `(..., s)`. What stands for `...` is the same in all of them. Matrices of
# $s \cdot t$ are allowed.
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

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Causal, Split keys, Half precision</summary>
#
# - **Causal.** Query $i$ sees key $j$ where $j \le t - s + i$: the last query sees all keys. Hidden keys have no
#   influence, however large or small the scores are.
# - **Split keys.** `out` and `lse` may come from more keys than these, as in ring attention: rows of $P$ then sum to
#   less than 1, and the formulas hold all the same.
# - **Half precision.** `lse` is float32, and stays so. $P$, $D$ and $dS$ are computed in float32, each rounded once
#   before a product at most: $dS$ is not made of a rounded $P$. Scores and $dO\, V^\top$ may be rounded.
#
# </details>

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

    lse is float32 at least. The results have the dtype of q. Dao 2023, arXiv:2307.08691, algorithm 2.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("attention_backward")
