# ---
# jupyter:
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

# %% [markdown] tags=["contract"]
# - **Alignment.** At the bottom right: the last query sees all keys, whatever the two lengths.
# - **Device.** The mask is made on `device`, which may be a string or `meta`.

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
    """True where a query may attend to a key: up to its own position, the queries being the last of the keys."""
    ### BEGIN SOLUTION
    k_len = q_len if k_len is None else k_len
    offset = k_len - q_len
    query_position = torch.arange(q_len, device=device) + offset
    key_position = torch.arange(k_len, device=device)
    return key_position <= query_position[:, None]
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The code is the definition: two positions, one comparison. Without the offset the mask is right for training, where
# `k_len = q_len`, and wrong for decoding: a single new query would see the first key alone.
#
# **What it costs.** One byte an entry: 17 MB for 4,096 tokens, 17 GB for 131,072. So at length nobody makes it: a fused
# kernel compares the two indices in registers and skips the tiles above the diagonal, which saves nearly half of the
# FLOPs of a prefill. A mask tensor has to be read from HBM and can rule out the fastest kernel.
#
# ## The other formulation
#
# `torch.ones(q_len, k_len, dtype=torch.bool, device=device).tril(diagonal=k_len - q_len)` gives the same mask. It is a
# line shorter, and easier to get wrong: `tril` or `triu`, diagonal 0 or 1, which side the offset goes.
#
# ## The usual mistakes
#
# - Aligned at the top left, as PyTorch's `is_causal=True` is.
# - `<` instead of `<=`. A token then cannot see itself, and the first query sees nothing.
# - The opposite meaning of True. `nn.MultiheadAttention` reads True as *blocked*; `F.scaled_dot_product_attention`, and
#   this house, read it as *may attend*.
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
# ### Why is the mask aligned at the bottom right when a KV cache holds earlier keys?
#
# - The queries are the newest positions: query $i$ stands at $k_{\mathrm{len}} - q_{\mathrm{len}} + i$.
# - With one query it is a row of True, so decoding needs no mask at all.
# - PyTorch's `is_causal=True` aligns at the top left. One new query would then see the first key alone.
# - For a chunk of a prompt after a cache both differ, and no shape reveals it.
#
# Source: PyTorch documentation of `F.scaled_dot_product_attention`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html.
#
# ### How many bytes is the mask of `seq` tokens, added to the scores as a bias of `size` bytes an entry?
#
# - Size times the square of the length, for one head and entry of the batch: it broadcasts over them, or should.
# - As booleans a quarter of float32: 1.07 GB at 32,768 tokens.
# - A kernel compares the two indices on the fly and stores nothing. Only tiles on the diagonal need the comparison.
# - A profiler shows a mask tensor by another kernel's name, and by the bytes that it reads.
#
# Answer: `size * seq**2` bytes, within 5 %. Settings: `seq` 4096, 32768, 131072; `size` 2, 4.
#
# Source: Dao 2023, section 3.1, arXiv:2307.08691.
#
# ### A prefill in chunks: what percent of the mask is True for `q_len` queries at the end of `k_len` keys?
#
# - Query $i$ sees $k_{\mathrm{len}} - q_{\mathrm{len}} + i + 1$ keys, on average
#   $k_{\mathrm{len}} - (q_{\mathrm{len}} - 1)/2$.
# - All at once it is half: that is what skipping tiles saves. A short chunk after a long cache saves nearly nothing.
# - All chunks together still compute the one triangle of the whole prompt.
#
# Answer: `100 * (1 - (q_len - 1) / (2 * k_len))` percent, within 2 %. Settings: `q_len` 512, 2048, 8192; `k_len` 8192,
# 16384.
#
# Source: Agrawal et al. 2023, arXiv:2308.16369.
#
# ### The diagonal is off by one. How would you notice?
#
# - One too many: each token sees the next one, which is its own target. The loss falls far below any sensible value,
#   and generation is noise.
# - One too few: the first row has no key and gives nan, or zeros if such rows are handled.
# - The test: change token $t$ and compare. Outputs before $t$ must not move, the output at $t$ must.
#
# Source: Vaswani et al. 2017, section 3.2.3, arXiv:1706.03762.
#
# ### How do you combine it with padding and with packed documents?
#
# - Padding: `causal & padding[:, None, None, :]`, of shape `(batch, 1, q_len, k_len)`. Padding at the end needs no mask
#   but in the loss.
# - Padding on the left makes rows that may attend to nothing.
# - Packing: and it with `document[:, None] == document[None, :]`, which makes blocks along the diagonal.
# - Kernels for variable lengths take the borders of the documents instead of a mask.
#
# Source: Krell et al. 2021, arXiv:2107.02027.
#
# ### Boolean mask or additive bias: what can go wrong?
#
# - As a bias, blocked is $-\infty$ and allowed 0. A mask of 0 and 1 that is added blocks nothing.
# - $-10^9$ becomes $-\infty$ in float16. Two biases of the lowest finite number add up to $-\infty$ as well.
# - A row of only $-\infty$ is nan. With the lowest finite number it is a plain mean over keys that are forbidden.
# - True means allowed in `F.scaled_dot_product_attention` and blocked in `nn.MultiheadAttention`.
#
# Source: PyTorch documentation of `nn.MultiheadAttention`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.MultiheadAttention.html.
