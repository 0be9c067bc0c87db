# %% [markdown]
# # Causal mask
#
# $$\mathrm{mask}_{ij} = \big[\, j \le (k\_len - q\_len) + i \,\big]$$
#
# A language model must not look ahead. The mask says which key each query may see: True means it may.
#
# There may be more keys than queries. This happens when a cache holds the keys of earlier tokens
# and only the newest tokens are queries. The queries are then the **last** `q_len` of `k_len` positions.
# Query `i` stands at position `k_len - q_len + i`. It sees every key up to and including its own position.
#
# **Write** `causal_mask(q_len, k_len=None, *, device=None)`.
#
# - **Result:** a boolean tensor of shape `(q_len, k_len)` on `device`. `k_len` defaults to `q_len`.
# - **`q_len = 0`** gives an empty mask of shape `(0, k_len)`.
# - **A negative length, or `k_len < q_len`,** is a `ValueError` whose message holds the offending values: the negative
#   length, or both lengths where neither is negative.
# - **No loops.** The number of tensor operations does not grow with the lengths. The computation stays in PyTorch,
#   without NumPy, and no intermediate tensor is much larger than the mask.
# - **Each call** gives a mask of its own, which the caller may overwrite.
# - **Not graded:** which of two negative lengths is named.
#
# **Example.** `causal_mask(2, 4)`: query 0 stands at position 2, query 1 at position 3.
#
# ```
# [[True, True, True, False],
#  [True, True, True, True ]]
# ```
#
# **Sources:** Vaswani et al. 2017: Attention is all you need, section 3.2.3,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# q_len, k_len = 2, 4
# for query in range(q_len):
#     position = k_len - q_len + query  # the queries are the last of the keys
#     print(f"query {query} stands at {position} and sees", [key <= position for key in range(k_len)])

# %%
import torch
from jaxtyping import Bool
from torch import Tensor


# %%
def causal_mask(
    q_len: int, k_len: int | None = None, *, device: torch.device | str | None = None
) -> Bool[Tensor, "q_len k_len"]:
    """True where a query may attend to a key: up to its own position, the queries being the last of the keys.

    Raises ValueError for a negative length, or if there are fewer keys than queries.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("causal_mask")
