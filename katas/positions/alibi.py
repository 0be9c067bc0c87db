# %% [markdown]
# # ALiBi: attention with linear biases
#
# $$\mathrm{bias}_{h, i, j} = -m_h \cdot |\,p_i - j\,|, \qquad p_i = k_{\mathrm{len}} - q_{\mathrm{len}} + i, \qquad
# m_h = 2^{-8 (h + 1) / H} \text{ for } H = 1, 2, 4, 8, \dots$$
#
# ALiBi has no position vectors. It subtracts from each score a penalty that grows with the distance between query and
# key. Each head has its own slope $m_h$: steep heads look nearby, flat ones far away. Models trained this way can read
# texts longer than those of their training.
#
# **Write** two functions of Python integers that give float32 tensors:
#
# - `alibi_slopes(num_heads)`: the slopes, of shape `(num_heads,)`; 8 heads have $1/2, 1/4, \dots, 1/256$;
# - `alibi_bias(num_heads, q_len, k_len=None)`: the biases, of shape `(num_heads, q_len, k_len)`. `k_len` is `q_len` by
#   default.
#
# **Example.** 2 heads: slopes $2^{-4} = 1/16$ and $1/256$. The bias of head 0 for `q_len=2, k_len=3` has queries at 1
# and 2: `[[-1/16, 0, -1/16], [-2/16, -1/16, 0]]`.
#
# **Builds on** causal_mask. **Sources:** Press, Smith, Lewis 2021: Train short, test long,
# [arXiv:2108.12409](https://arxiv.org/abs/2108.12409).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Head counts, Positions, Both sides</summary>
#
# - **Head counts.** Other numbers than powers of two follow the code of the paper. With $P$ the largest power of two
#   below $H$, the first $P$ slopes are those of $P$ heads, and the other $H - P$ are every other slope of $2P$ heads,
#   from the first on: 3 heads have $1/16$, $1/256$ and $1/4$.
# - **Positions.** The queries are the last of the keys, as with a KV cache.
# - **Both sides.** Keys after the query get a penalty as well. The causal mask is not part of the bias.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# from fractions import Fraction
#
# slope = Fraction(1, 16)  # head 0 of 2
# for query in (1, 2):  # two queries at the end of three positions
#     print("query at", query, [str(-slope * abs(query - key)) for key in range(3)])

# %%
import torch
from jaxtyping import Float
from torch import Tensor


# %%
def alibi_slopes(num_heads: int) -> Float[Tensor, "heads"]:
    """The slope of each head, in float32: 2^(-8 (h + 1) / heads), or what the paper's code makes of other numbers.

    Press, Smith, Lewis 2021, arXiv:2108.12409; code at https://github.com/ofirpress/attention_with_linear_biases.
    """
    raise NotImplementedError


# %%
def alibi_bias(num_heads: int, q_len: int, k_len: int | None = None) -> Float[Tensor, "heads q_len k_len"]:
    """-slope · |distance| for each head, query and key, in float32. The queries are the last of the keys."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("alibi")
