# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
#   dojo:
#     title: Causal mask
#     level: 1
#     minutes: 5
#     builds_on: []
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, section 3.2.3, arXiv:1706.03762"
# ---

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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# q_len, k_len = 2, 4
# for query in range(q_len):
#     position = k_len - q_len + query  # the queries are the last of the keys
#     print(f"query {query} stands at {position} and sees", [key <= position for key in range(k_len)])

# %% [markdown] tags=["hint"]
# Write down the position of each query and the position of each key. The mask compares the two.

# %% [markdown] tags=["hint"]
# The last query always sees all keys. Check that your bottom right corner is True, whatever the two lengths.

# %% [markdown] tags=["hint"]
# Two `arange`s do it, one as a column and one as a row; broadcasting makes the table.
# Or fill with ones and use `tril`, whose `diagonal` argument is the number of keys that came before the first query.

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
    ### BEGIN SOLUTION
    if k_len is None:
        k_len = q_len
    if q_len < 0 or k_len < q_len:
        raise ValueError(f"need 0 <= q_len <= k_len, got q_len {q_len} and k_len {k_len}")
    offset = k_len - q_len
    query_position = torch.arange(q_len, device=device) + offset
    key_position = torch.arange(k_len, device=device)
    return key_position <= query_position[:, None]
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The code is the definition: two positions, one comparison. Without the offset the mask is right for training,
# where `k_len = q_len`, and wrong for decoding: a single new query would see only the first key.
#
# **What it costs.** $O(q_{\mathrm{len}}\, k_{\mathrm{len}})$ time and as many bytes, one for each entry: 17 MB for
# 4,096 tokens.
#
# ## The other formulation
#
# `torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(diagonal=k_len - q_len)` gives the same mask.
# It is a line shorter, and easier to get wrong: `tril` or `triu`, diagonal 0 or 1, which side the offset goes.
#
# ## The usual mistakes
#
# - Aligning the top left corners instead of the bottom right ones. PyTorch's `is_causal=True` aligns the top left.
# - `<` instead of `<=`. A token then cannot see itself, and the first query sees nothing.
# - The opposite meaning of True. `nn.MultiheadAttention` reads True as *blocked*;
#   `F.scaled_dot_product_attention`, and this house, read it as *may attend*.
# - A mask made on the CPU for scores on the GPU.

# %% tags=["active-ipynb", "solution"]
# # Six keys: a whole sequence, the two newest queries with a cache, and one. The corner at the bottom right is fixed
# import matplotlib.pyplot as plt
#
# figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
# for axis, q_len in zip(axes, (6, 2, 1)):
#     axis.imshow(causal_mask(q_len, 6), vmin=0, vmax=1, cmap="Blues", extent=(-0.5, 5.5, 5.5, 5.5 - q_len))
#     axis.set(title=f"causal_mask({q_len}, 6)", xlabel="key", ylabel="position of the query")
#     axis.set(xticks=range(6), yticks=range(6 - q_len, 6))
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# - **Why is bottom right alignment right for a cache?** The new tokens are the newest positions.
#   With one query it is a row of True: no mask is needed at all.
# - **How would you add a window of w tokens?** And it with `key_position > query_position - w`.
# - **How do you combine it with padding?** `causal & padding[:, None, None, :]`, of shape `(batch, 1, seq, seq)`.
# - **What does the mask cost?** $n^2$ bytes. Fused kernels compute the comparison on the fly and skip blocked tiles,
#   which also saves half of the arithmetic.
