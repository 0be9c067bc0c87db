# %% [markdown]
# # Causal mask
#
# $$\mathrm{mask}_{ij} = \big[\, j \le (k\_len - q\_len) + i \,\big]$$
#
# A language model must not look ahead. The mask says which keys a query may attend to: itself and what came before.
#
# **Write** `causal_mask(q_len, k_len=None, *, device=None)`: a boolean tensor of shape `(q_len, k_len)` on `device`,
# True = may attend. `k_len` defaults to `q_len`. With more keys than queries, as with a KV cache, the queries are the
# **last** `q_len` of the `k_len` positions.
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

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Alignment, Device</summary>
#
# - **Alignment.** At the bottom right: the last query sees all keys, whatever the two lengths.
# - **Device.** The mask is made on `device`, which may be a string or `meta`.
#
# </details>

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
    """True where a query may attend to a key: up to its own position, the queries being the last of the keys."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("causal_mask")
