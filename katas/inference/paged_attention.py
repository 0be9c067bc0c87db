# %% [markdown]
# # Paged attention
#
# $$o_b = \mathrm{softmax}\!\left(\frac{q_b\, K_b^\top}{\sqrt{d}}\right) V_b, \qquad
# \mathrm{slot}_b(t) = P \cdot \mathrm{table}_{b, \lfloor t / P \rfloor} + t - P \lfloor t / P \rfloor$$
#
# The KV cache of all sequences lies in one pool of pages of $P$ tokens, and a block table lists the pages of each
# sequence in order. **Write**
#
# - `slot_indices(block_table, positions, page_size)`: from int64 `(batch, pages)` and `(batch, n)` to int64
#   `(batch, n)`, where in the flattened pool these tokens lie.
# - `paged_attention(q, k_pages, v_pages, block_table, lengths)`, one decoding step: from `q` `(batch, heads, head_dim)`
#   to the same shape. Pages are `(num_pages, page_size, num_kv_heads, head_dim)`, `lengths` `(batch,)` at least 1.
#   Sequence $b$ attends to its first `lengths[b]` tokens, query head $h$ to key head `h // (heads // num_kv_heads)`.
#
# No gradients. Not allowed: `F.scaled_dot_product_attention` and other fused attention.
#
# **Example.** Pages of 4 tokens and the table `[[7, 2]]`: positions 0, 3, 5 lie at 28, 31 and 9, the second place of
# page 2.
#
# **Builds on** kv_cache, gqa. **Sources:** Kwon et al. 2023: Efficient memory management for LLM serving with
# PagedAttention, [arXiv:2309.06180](https://arxiv.org/abs/2309.06180).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Unused entries, Unused places, Half precision, Cost, Errors</summary>
#
# - **Unused entries.** After the last page that a sequence needs, the block table may hold anything: -1, or a number
#   beyond the pool.
# - **Unused places.** Places after a sequence's end, and pages of nobody, may hold anything, nan too, in keys
#   and in values.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of `q`, as Llama does.
# - **Cost.** Memory as the batch times the longest table, never as the pool.
# - **Errors.** `heads` no multiple of `num_kv_heads`.
#
# </details>

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


# %%
def slot_indices(
    block_table: Int[Tensor, "batch pages"], positions: Int[Tensor, "batch n"], page_size: int
) -> Int[Tensor, "batch n"]:
    """Where in the pool, flattened to slots, the tokens at these positions lie."""
    raise NotImplementedError


def paged_attention(
    q: Float[Tensor, "batch heads head_dim"],
    k_pages: Float[Tensor, "num_pages page_size num_kv_heads head_dim"],
    v_pages: Float[Tensor, "num_pages page_size num_kv_heads head_dim"],
    block_table: Int[Tensor, "batch pages"],
    lengths: Int[Tensor, "batch"],
) -> Float[Tensor, "batch heads head_dim"]:
    """Attention of one query a sequence to its tokens in the pool, whose number is at least 1.

    Softmax is computed in float32 at least. Raises ValueError if num_kv_heads does not divide heads. Kwon et al. 2023,
    arXiv:2309.06180.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("paged_attention")
