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
# **Write** two functions of Python integers:
#
# - **`alibi_slopes(num_heads)`** returns the slopes, a float32 tensor of shape `(num_heads,)`.
# - **`alibi_bias(num_heads, q_len, k_len=None)`** returns the biases, a float32 tensor of shape
#   `(num_heads, q_len, k_len)`. `k_len` is `q_len` when it is None.
#
# - **Powers of two.** For $H = 2^n$ heads the slopes are $r, r^2, \dots, r^H$ with $r = 2^{-8/H}$. So 8 heads have
#   $1/2, 1/4, \dots, 1/256$.
# - **Other numbers of heads** follow the code of the paper. Let $P$ be the largest power of two below $H$. The first
#   $P$ slopes are those of $P$ heads. The remaining $H - P$ are every other slope of $2P$ heads, beginning with the
#   first.
# - **Positions.** Query `i` stands at the absolute position `k_len - q_len + i`, as it does with a cache. The distance
#   is an absolute value: keys behind the query get a penalty as well. The causal mask is not part of the bias.
# - **No loops** over queries or keys. A Python list of slopes is fine. The computation stays in PyTorch, without NumPy.
# - **Each call** gives a tensor of its own, which the caller may overwrite. No intermediate tensor is much larger.
# - **Not graded:** fewer keys than queries, lengths of zero, fewer than one head, and another device than the CPU.
#
# **Example.** 2 heads: $r = 2^{-4}$, slopes $1/16$ and $1/256$. 3 heads: $P = 2$, so $1/16$ and $1/256$, and then the
# first slope of 4 heads, $2^{-2} = 1/4$. The bias of head 0 of 2 for `q_len=2, k_len=3` has queries at 1 and 2:
# `[[-1/16, 0, -1/16], [-2/16, -1/16, 0]]`.
#
# **Builds on** causal_mask. **Sources:** Press, Smith, Lewis 2021: Train short, test long,
# [arXiv:2108.12409](https://arxiv.org/abs/2108.12409).
#
# House rules hold: docs/house_rules.md.

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
