# %% [markdown]
# # Flash attention
#
# $$m' = \max(m, \max_j S_j), \qquad \ell' = e^{m - m'} \ell + \sum_j e^{S_j - m'}, \qquad
# o' = e^{m - m'} o + \sum_j e^{S_j - m'} v_j$$
#
# Attention without a matrix of all scores. Keys and values come a block at a time; each query keeps its largest score
# so far $m$, its sum of exponentials $\ell$ and weighted sum of values $o$. In the end $o / \ell$ is the attention,
# and $m + \ln \ell$ what backward needs.
#
# **Write** `flash_attention(q, k, v, causal=False, block_size=64)`, which gives `(out, lse)`. `q` has shape
# `(..., s, d_k)`, `k` `(..., t, d_k)`, `v` `(..., t, d_v)`, `out` `(..., s, d_v)`, `lse` `(..., s)`; $S = q k^\top /
# \sqrt{d_k}$. With `causal` query $i$ sees key $j$ where $j \le t - s + i$. Any `block_size` gives the same.
# Plain autograd will do.
#
# Not allowed: `softmax`, `logsumexp`, fused attention.
#
# **Example.** The query $(2)$, the keys $(0)$ and $(\ln 3 / 2)$ with the values $8$ and $4$, and `block_size=1`. The
# first score is $0$: $m = 0$, $\ell = 1$, $o = 8$. The second is $\ln 3$: what was there counts
# $e^{0 - \ln 3} = 1/3$ of what it did, so $\ell = 1/3 + 1 = 4/3$ and $o = 8/3 + 4 = 20/3$. `out` is $5$, `lse` is
# $\ln 3 + \ln (4/3) = \ln 4 = 1.38629$.
#
# **Builds on** softmax, sdpa. **Sources:** Dao et al. 2022: FlashAttention: Fast and Memory-Efficient Exact Attention,
# [arXiv:2205.14135](https://arxiv.org/abs/2205.14135); Milakov and Gimelshein 2018: Online normalizer calculation for
# softmax, [arXiv:1805.02867](https://arxiv.org/abs/1805.02867).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Large scores, Half precision, Memory, Operations</summary>
#
# - **Large scores.** Of either sign, rising or falling from block to block: they overflow nowhere.
# - **Half precision.** $m$, $\ell$, $o$ and `lse` are float32. Scores, weights and products may be rounded to the dtype
#   of the inputs.
# - **Memory.** Without gradients no tensor besides inputs and results has more than $\max(s, d) \cdot \max(b, d)$
#   entries a head, where $b$ is `block_size` and $d$ the larger of $d_k$ and $d_v$. Masks count.
# - **Operations.** Forward and backward, their number grows with the number of blocks alone: of keys, and of queries if
#   you cut those too.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# largest, total, output = -math.inf, 0.0, 0.0
# for score, value in ((0.0, 8.0), (math.log(3), 4.0)):
#     before, largest = largest, max(largest, score)
#     rescale, weight = math.exp(before - largest), math.exp(score - largest)
#     total, output = rescale * total + weight, rescale * output + weight * value
#     print(f"score {score:.3f}: maximum {largest:.3f}, sum {total:.3f}, output {output:.3f}")
# print(f"out {output / total:.3f}, lse {largest + math.log(total):.5f}")

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor


# %%
def flash_attention(
    q: Float[Tensor, "*batch q_len d_k"],
    k: Float[Tensor, "*batch k_len d_k"],
    v: Float[Tensor, "*batch k_len d_v"],
    causal: bool = False,
    block_size: int = 64,
) -> tuple[Float[Tensor, "*batch q_len d_v"], Float[Tensor, "*batch q_len"]]:
    """Attention, and the logarithm of its sums of exponentials, from blocks of keys.

    A causal query sees no key after its own place, where the last query stands at the last key. `lse` and all sums are
    float32 at least. Dao et al. 2022, arXiv:2205.14135.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("flash_attention")
