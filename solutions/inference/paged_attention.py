# ---
# jupyter:
#   dojo:
#     title: Paged attention
#     level: 4
#     minutes: 25
#     builds_on: [kv_cache, gqa]
#     sources:
#       - "Kwon et al. 2023: Efficient memory management for LLM serving with PagedAttention, arXiv:2309.06180"
# ---

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

# %% [markdown] tags=["contract"]
# - **Unused entries.** After the last page that a sequence needs, the block table may hold anything: -1, or a number
#   beyond the pool.
# - **Unused places.** Places after a sequence's end, and pages of nobody, may hold anything, nan too, in keys
#   and in values.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of `q`, as Llama does.
# - **Cost.** Memory as the batch times the longest table, never as the pool.
# - **Errors.** `heads` no multiple of `num_kv_heads`.

# %% [markdown] tags=["hint"]
# A tensor of page numbers gathers whole pages: what is the shape of `k_pages[block_table]`, and which two of its axes
# are the sequence?

# %% [markdown] tags=["hint"]
# Which page numbers may you not index with? Where does a mask on the scores not help, because `0 * nan` is nan?

# %% [markdown] tags=["hint"]
# `valid = torch.arange(pages * page_size) < lengths[:, None]`. Replace unused page numbers by 0, gather,
# `flatten(1, 2)`, fill scores with `finfo.min` and values with 0 where they are not valid. Queries as
# `(batch, kv_heads, group, head_dim)` need no repeated heads.

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
    ### BEGIN SOLUTION
    pages = block_table.gather(1, positions // page_size)
    return pages * page_size + positions % page_size
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    heads, (_, page_size, num_kv_heads, head_dim) = q.shape[1], k_pages.shape
    if heads % num_kv_heads != 0:
        raise ValueError(f"{heads} heads are no multiple of num_kv_heads {num_kv_heads}")
    pages = block_table.shape[1]
    start = page_size * torch.arange(pages, device=q.device)
    used = block_table.masked_fill(start >= lengths[:, None], 0)
    k = k_pages[used].flatten(1, 2)  # (batch, seq, kv_heads, head_dim)
    v = v_pages[used].flatten(1, 2)
    hidden = torch.arange(pages * page_size, device=q.device) >= lengths[:, None]
    v.masked_fill_(hidden[..., None, None], 0.0)  # v is a copy already, and a weight of 0 times nan is nan

    groups = q.unflatten(1, (num_kv_heads, -1))  # (batch, kv_heads, group, head_dim)
    scores = groups @ k.permute(0, 2, 3, 1) / math.sqrt(head_dim)
    scores = scores.masked_fill(hidden[:, None, None], torch.finfo(scores.dtype).min)
    acc = torch.promote_types(q.dtype, torch.float32)
    weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
    return (weights @ v.transpose(1, 2)).flatten(1, 2)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Pages.** A buffer for the longest sequence is mostly empty: earlier systems filled 20 to 38 percent of it. Pages are
# handed out as a sequence grows, and wasted is at most a page less one token. The table is the page table of an
# operating system: neighbors in the sequence need not be neighbors in memory.
#
# **Gathered by pages.** A page is read as one run of memory, by one index; by slots it takes `page_size` indices.
# `slot_indices` is for writing: `k_pages.flatten(0, 1)[slots] = k` puts new tokens into their places.
#
# **The table is as wide as the longest sequence**, and its width is a shape: `lengths.max()` would wait for the GPU.
#
# **Two fills.** nan in a key makes one score nan, which is overwritten. nan in a value meets a weight of 0, and
# $0 \cdot \mathrm{nan}$ is nan: what memory held before is not always finite.
#
# **What it costs.** Here keys and values are gathered into HBM and read again, three times the traffic of the cache. A
# kernel follows the table itself and reads each page once, at about `group` FLOPs a byte in bfloat16: memory-bound.
# With 8 key heads of 128 in 32 layers a token has 131 kB, and 4,096 tokens take 0.16 ms at 3.35 TB/s.
#
# ## The other formulation
#
# `k_pages.flatten(0, 1)[slot_indices(block_table, positions, page_size)]`, for all positions of the table. With
# `q.new_full(..., -inf)` as a bias in place of the fill it is what vLLM's reference does.
#
# Split K, as FlashDecoding has it: each part of a sequence gives its own maximum, sum and result, and they are combined
# as in online softmax. A single long sequence then fills the GPU.
#
# ## The usual mistakes
#
# - Page and place swapped: `pos % page_size` is the place, `pos // page_size` the row of the table.
# - The page's number in the sequence for the one in the pool: right until the first page is freed.
# - An entry of -1 as an index: PyTorch takes the last page, a kernel reads in front of the pool.
# - Scores masked with 0 instead of a large negative number, so that empty places take weight.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### How many tokens' room is wasted on average, `seqs` sequences of any length, in pages of `page`?
#
# - Only the last page of a sequence is not full: between 0 and `page - 1` places, half of that on average.
# - A buffer of `max_len` wastes `max_len` less the length, and fragments between buffers.
# - Large pages are read in longer runs and need fewer entries; small ones waste less, and more prefixes are shared.
#
# Answer: `seqs * (page - 1) / 2` tokens, within 5 %. Settings: `seqs` 100, 256; `page` 16, 64, 256.
#
# Source: Kwon et al. 2023, section 4.3, arXiv:2309.06180.
#
# ### How many pages of `page` tokens fit into `gb` GB, with `kib` KiB of cache a token?
#
# - All layers' keys and values count: Llama 3 8B has 128 KiB in bfloat16, so a page of 16 tokens has 2 MiB.
# - 64 GB hold 30,500 of them, nearly half a million tokens, of whichever sequences there are.
#
# Answer: `gb * 1e9 / (kib * 1024 * page)` pages, within 3 %. Settings: `gb` 24, 64; `kib` 128, 320; `page` 16, 32.
#
# Source: Grattafiori et al. 2024, table 3, arXiv:2407.21783.
#
# ### Two samples of one prompt of 1,000 tokens, pages of 16: what is shared?
#
# - 62 full pages, each with two references, are never written again. The 63rd holds 8 tokens: who appends first copies
#   it, for the other still reads it: copy on write.
# - Prompts with a common prefix share its full pages too, found by a hash of the tokens up to their end.
#
# Source: Kwon et al. 2023, section 4.4, arXiv:2309.06180.
#
# ### The pool is full and a sequence needs a page: what now?
#
# - Preempt the sequence that came last: free all its pages, for half a sequence is of no use.
# - Later it is recomputed in one prefill, prompt and answer so far, or its pages come back from CPU memory, if PCIe is
#   faster than the FLOPs.
#
# Source: Kwon et al. 2023, section 4.5, arXiv:2309.06180.
