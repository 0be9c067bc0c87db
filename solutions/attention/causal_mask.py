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

# %% [markdown] tags=["idea"]
# A language model learns to predict the next token, at all positions of a text at once: 1,000 tokens, 1,000 exercises
# in one pass. That works only if no position can see its own answer, which is the token after it. So attention is given
# a table of permissions. A row is a query, a column is a key, and True says that this query may look at this key. Each
# row has one True more than the row above it: the staircase on the left of the figure.
#
# When the model writes, the keys of the past lie in a cache, and only the newest tokens ask. What they may see is the
# same as ever: the last of six tokens sees all six, whether it asks alone or together with the others. So two new
# tokens have the bottom two rows of the full table, as in the middle. On the right the staircase begins at the first
# key instead. The shape is the same and nothing fails, but the newest token sees two keys of six.

# %% tags=["active-ipynb", "figure"]
# """Three tables over the six words of 'The cat sat on the mat'. Left: six queries, a full staircase, from one key to
# all six. Middle: the last two queries alone have the bottom two rows of the left table, five keys and six. Right, the
# mistake: the same two queries see one key and two."""
# import matplotlib.pyplot as plt
# import numpy as np
#
# words, titles = "The cat sat on the mat".split(), ("all six ask", "the last two ask", "mistake: wrong corner")
# figure, axes = plt.subplots(1, 3, figsize=(7.6, 3.4), sharey=True)
# for axis, first, shift, title in zip(axes, (0, 4, 4), (0, 0, 4), titles, strict=True):
#     query, key = np.indices((6, 6))[:, first:]
#     seen = key <= query - shift
#     axis.scatter(key[seen], query[seen], s=110, marker="s", label="may attend")
#     axis.scatter(key[~seen], query[~seen], s=40, marker="x", label="hidden")
#     axis.set_xticks(range(6), words, rotation=90)
#     axis.set(title=title, xlabel="key", xlim=(-0.6, 5.6), ylim=(5.6, -0.6))
# axes[0].set_yticks(range(6), words)
# axes[0].set_ylabel("query")
# figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)

# %%
import torch
from jaxtyping import Bool
from torch import Tensor

# %% [markdown] tags=["step"]
# **Where a query stands.** The queries are the newest tokens. At which position is query number `query`, from 0?

# %% tags=["active-ipynb", "step"]
# def position(query: int, q_len: int, k_len: int) -> int:
#     """The position among the keys at which a query stands."""
#     ### BEGIN SOLUTION
#     return k_len - q_len + query
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# position(1, 5, 12) = 8
# position(1, 5, 12) ≠ 1: counted from the first key; k_len - q_len keys came before the first query
# position(1, 5, 12) ≠ -6: the offset has the wrong sign: queries stand k_len - q_len places further on
# position(1, 5, 12) ≠ 9: one too far: query 0 stands at k_len - q_len, since positions count from 0 too
# position(1, 5, 12) ≠ 10: counted back from the last key: query 0 is the oldest of the new tokens
# position(1, 5, 12) ≠ 6: moved on by q_len; what came before are the other keys, k_len - q_len of them
# position(1, 5, 12) ≠ 11: the position of the last query alone

# %% [markdown] tags=["step"]
# **One row.** What may the query at this position attend to? One truth value for each key.

# %% tags=["active-ipynb", "step"]
# def row(position: int, k_len: int) -> list[bool]:
#     """True for each key that the query may attend to."""
#     ### BEGIN SOLUTION
#     return [True] * (position + 1) + [False] * (k_len - position - 1)
#     ### END SOLUTION

# %% [markdown] tags=["step-cases"]
# row(2, 5) = [True, True, True, False, False]
# row(2, 5) ≠ [True, True, False, False, False]: its own key is hidden, and the query at 0 would see nothing
# row(2, 5) ≠ [True, True, True, True, False]: it sees the next token, which is what it has to predict
# row(2, 5) ≠ [False, False, False, True, True]: inverted: True is what a query may attend to, not what is blocked
# row(2, 5) ≠ [False, False, True, True, True]: it sees itself and the future; the past is what it may see
# row(2, 5) ≠ [1, 1, 1, 0, 0]: numbers, where truth values are asked for: `~` of 1 is -2
# row(2, 5) ≠ [0, 0, 0, -inf, -inf]: a bias to be added to the scores, where truth values are asked for

# %% [markdown] tags=["experiment"]
# All scores are 0 here, so each query gets the mean position of the keys that it sees. Both lines agree while `q_len`
# is 8. Make it 2, then 1: which keys does the second line have? `is_causal` cuts at the other corner.
#
# Further reading: Vaswani et al. 2017, section 3.2.3, arXiv:1706.03762; PyTorch's `torch.nn.attention.bias`.

# %% tags=["active-ipynb", "experiment"]
# q_len = 8
# q, k, v = torch.zeros(1, q_len, 4), torch.zeros(1, 8, 4), torch.arange(8.0)[None, :, None]
# attend = torch.nn.functional.scaled_dot_product_attention
# print("causal_mask", attend(q, k, v, attn_mask=causal_mask(q_len, 8)).flatten().tolist())
# print("is_causal  ", attend(q, k, v, is_causal=True).flatten().tolist())


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
