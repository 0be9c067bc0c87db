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
#     title: Grouped-query attention
#     level: 3
#     minutes: 15
#     builds_on: [mha, mqa]
#     sources:
#       - "Ainslie et al. 2023: GQA, training generalized multi-query transformer models, arXiv:2305.13245"
# ---

# %% [markdown]
# # Grouped-query attention
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K_{g(h)}^\top}{\sqrt{d}}\right) V_{g(h)}, \qquad
# g(h) = \left\lfloor \frac{h}{H / G} \right\rfloor$$
#
# There are $H$ query heads and $G$ key/value heads.
# Each key/value head serves a group of $H / G$ **neighbouring** query heads.
# With $G = H$ this is multi-head attention, with $G = 1$ multi-query attention.
#
# **Write** `GroupedQueryAttention(d_model, num_heads, num_kv_heads, *, device=None, dtype=None)` with
# `forward(x, mask=None)`.
#
# - **`x`** has shape `(batch, seq, d_model)`; the result has the same. Queries, keys and values all come from `x`.
# - **`head_dim`** is `d_model / num_heads`. It is the $d$ of the formula.
# - **Parameters**, and no others, stored `(out_features, in_features)`, without biases:
#   - `q_proj.weight` and `o_proj.weight`, each `(d_model, d_model)`;
#   - `k_proj.weight` and `v_proj.weight`, each `(num_kv_heads * head_dim, d_model)`.
#
#   `nn.Linear(bias=False)` is allowed. Initialise them as you like.
# - **Heads.** Query head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of the query weight.
#   Key/value head `g` owns the rows `g * head_dim ... (g + 1) * head_dim - 1` of the key and value weights.
#   Query head `h` reads key/value head `h // (num_heads // num_kv_heads)`.
#   Its output stands in the places of its rows when the heads are joined.
# - **`mask`** is boolean, True = may attend. It broadcasts against `(batch, num_heads, seq, seq)` and has two to four
#   dimensions. It may differ from query head to query head. A masked key has no influence, however large or small the
#   scores are.
# - **A query that may attend to nothing** gets exact zeros, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 softmax is computed in float32. The
#   scores before it and the weights after it may be rounded to the dtype of the inputs, as Llama does. float64 in,
#   float64 out; float32 accuracy is enough.
# - **Errors.** If `num_heads` is not a multiple of `num_kv_heads`, or `d_model` is not a multiple of `num_heads`: a
#   `ValueError` that holds both numbers, when the module is built or called.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over heads, groups or batch.
# - **Not graded**: masks of one dimension or of another dtype than bool, inputs of another dtype than the parameters,
#   and heads below 1.
#
# No operation is forbidden, but the point is to write attention out.
#
# **Example.** `d_model = 4`, `num_heads = 4`, `num_kv_heads = 2`, so `head_dim = 1` and a group has 2 query heads.
# Let `v_proj` be `[[1, 0, 0, 0], [0, 1, 0, 0]]` and `o_proj` the identity. Take a single token $x = (5, 7, 0, 0)$.
# It attends only to itself, with weight 1, so each head gives its value: 5 for group 0 and 7 for group 1.
# The result is `[5, 5, 7, 7]`. It is not `[5, 7, 5, 7]`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# num_heads, num_kv_heads, values = 4, 2, (5, 7)  # a value for each group
# group_size = num_heads // num_kv_heads
# for head in range(num_heads):
#     print(f"query head {head} reads group {head // group_size}: {values[head // group_size]}")

# %% [markdown] tags=["hint"]
# Write down, for each query head, which key/value head it reads. What changes fastest as `h` grows: the group, or the
# member of the group?

# %% [markdown] tags=["hint"]
# View the query heads as `(num_kv_heads, group)`, in this order, where `group = num_heads // num_kv_heads`.
# Then keys and values need one more axis of size 1 to broadcast.
# Or repeat each key/value head in place: `repeat_interleave`, not `repeat`.

# %% [markdown] tags=["hint"]
# Queries `(batch, num_kv_heads, group, seq, head_dim)`, keys `(batch, num_kv_heads, 1, seq, head_dim)`.
# The mask knows only heads: join the two head axes of the scores again (`flatten(-4, -3)`) before you apply it,
# and part them once more (`unflatten(-3, ...)`) for the product with the values.

# %%
import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
### BEGIN SOLUTION
def split_heads(x: Float[Tensor, "*batch seq dim"], num_heads: int) -> Float[Tensor, "*batch heads seq head_dim"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


### END SOLUTION


# %%
class GroupedQueryAttention(nn.Module):
    """Self-attention in which each key/value head serves a group of neighbouring query heads.

    Scores, softmax and weighted mean are computed in float32 at least. Raises ValueError if num_heads does not divide
    d_model, or num_kv_heads does not divide num_heads. Ainslie et al. 2023, arXiv:2305.13245.
    """

    def __init__(self, d_model: int, num_heads: int, num_kv_heads: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        if num_heads < 1 or d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        if num_kv_heads < 1 or num_heads % num_kv_heads != 0:
            raise ValueError(f"num_heads {num_heads} is not a multiple of num_kv_heads {num_kv_heads}")
        super().__init__()
        self.num_heads = num_heads
        self.num_kv_heads = num_kv_heads
        kv_dim = num_kv_heads * (d_model // num_heads)
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, kv_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "*batch seq d_model"], mask: Bool[Tensor, "*#batch #seq #seq"] | None = None
    ) -> Float[Tensor, "*batch seq d_model"]:
        """Self-attention of x. The mask is True where attention is allowed."""
        ### BEGIN SOLUTION
        acc = torch.promote_types(x.dtype, torch.float32)
        q = split_heads(self.q_proj(x), self.num_heads).to(acc)
        k = split_heads(self.k_proj(x), self.num_kv_heads).to(acc)
        v = split_heads(self.v_proj(x), self.num_kv_heads).to(acc)

        group = self.num_heads // self.num_kv_heads
        q = q.unflatten(-3, (self.num_kv_heads, group))  # (batch, kv_heads, group, seq, head_dim)
        k, v = k.unsqueeze(-3), v.unsqueeze(-3)  # (batch, kv_heads, 1, seq, head_dim)

        scores = (q @ k.transpose(-2, -1)).flatten(-4, -3)  # (batch, heads, seq, seq)
        scores = scores / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(acc).min)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)

        heads = weights.unflatten(-3, (self.num_kv_heads, group)) @ v
        heads = heads.flatten(-4, -3).to(x.dtype)  # (batch, heads, seq, head_dim)
        merged = heads.transpose(-3, -2).flatten(-2)  # (batch, seq, d_model)
        return self.o_proj(merged)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $h = g \cdot (H/G) + r$: the group changes slowly, the member $r$ fast.
# That is how `unflatten(-3, (num_kv_heads, group))` reads the head axis, so the views need no permutation.
# Keys and values get an axis of size 1 for the members, and broadcasting does the sharing.
# Only the mask and the softmax want plain heads, so the scores are joined for them.
#
# **What it costs.** $O(n d^2 + n^2 d)$ time and $4 H n^2$ bytes of scores in float32, as in multi-head attention. The
# cache takes $4\, G\,\text{head\_dim}$ bytes for each token and layer in bfloat16: in the 80 layers of Llama 3 70B 0.33
# MB for a token, instead of 2.6 MB with 64 key/value heads.
#
# ## The other formulation
#
# `k.repeat_interleave(group, dim=-3)`, the same for `v`, and then plain multi-head attention.
# It is the easiest to read, and it copies keys and values `group` times.
# `F.scaled_dot_product_attention(..., enable_gqa=True)` has the same meaning.
#
# To be sure that nothing is copied, fold the group into the query axis: `(batch, kv_heads, group * seq, head_dim)`
# against keys `(batch, kv_heads, seq, head_dim)`.
#
# ## The usual mistakes
#
# - `repeat` or `tile` instead of `repeat_interleave`: head `h` then reads `h % num_kv_heads`. All shapes fit.
#   With one or with all key/value heads even the values are right. A trained checkpoint gives noise.
# - `unflatten(-3, (group, num_kv_heads))` with keys `unsqueeze(-4)`: the same mistake in the broadcast form.
# - A mask that differs between heads, applied to scores of shape `(batch, kv_heads, group, seq, seq)`.
#   A mask `(batch, 1, 1, seq)` then meets the wrong axes, sometimes without an error.
# - `num_kv_heads or num_heads` for a default. It hides a 0.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What does the cache cost?
#
# - $2\, G\, \text{head\_dim}$ numbers for each token and layer.
# - Llama 3 70B has 80 layers, 64 query heads and 8 key heads of 128: 328 kB for a token in bfloat16, 2.7 GB for 8,192
#   tokens.
# - With 64 key heads it would be 8 times that, and few sequences would fit beside the weights.
#
# Source: Grattafiori et al. 2024, section 3.2, arXiv:2407.21783.
#
# ### Multi-head, grouped or multi-query: which would you choose when?
#
# - Multi-head where nothing is decoded step by step: encoders, training of small models.
# - Grouped for a language model that is served. Eight groups come close to multi-head in quality and to multi-query in
#   speed.
# - Multi-query where the cache is all that counts.
# - The group is also a matter of hardware: the number of key heads should divide by the devices.
#
# Source: Ainslie et al. 2023, section 3, arXiv:2305.13245.
#
# ### Why are eight key heads so common?
#
# - With a layer split over 8 devices each holds one key head and no copies.
# - With more devices than key heads the cache must be copied, and stops shrinking.
# - The returns diminish: from 64 to 8 heads the cache falls by 88 percent, from 8 to 1 by another 11.
#
# Source: Ainslie et al. 2023, section 2.2, arXiv:2305.13245.
#
# ### Are there fewer operations?
#
# - Only in the key and value projections: $4 n d \cdot G\, \text{head\_dim}$ instead of $4 n d^2$.
# - Scores and weighted means cost the same, $4 n^2 d$.
# - In decoding each cached number serves $H/G$ queries, so the work for each byte in bfloat16 is $H/G$ operations
#   instead of 1.
#
# Source: Ainslie et al. 2023, arXiv:2305.13245.
#
# ### How is a multi-head checkpoint converted?
#
# - Average the key and value heads of each group, then train on for a small share of the original steps. The paper took
#   5 percent.
# - The mean was better than picking one head, and that better than starting afresh.
# - Heads have no natural order. Which heads make up a group is a choice, and neighbours are the usual one.
#
# Source: Ainslie et al. 2023, section 2.1, arXiv:2305.13245.
#
# ### `repeat` instead of `repeat_interleave`: how would you notice?
#
# - Shapes fit, gradients flow, and a model trained that way is as good. Only a checkpoint of the other order gives
#   noise.
# - With one key head, or as many as query heads, the two are equal. A test needs at least two groups of at least two.
# - Make one key head produce a value of its own and see which query heads return it.
# - With two groups of two the first reads 0, 1, 0, 1 and the second 0, 0, 1, 1.
#
# Source: PyTorch documentation of `F.scaled_dot_product_attention`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html.
#
# ### What would a profiler show, and what does a good kernel do?
#
# - `repeat_interleave` copies keys and values $H/G$ times. In decoding that copy is most of the time.
# - A kernel for groups loads a tile of keys once and meets it with all queries of the group.
# - In decoding the group takes the place of the query axis and fills the tile of the matrix unit, which one query would
#   leave empty.
# - With few sequences it also splits the keys over the processors and combines the parts by their sums.
#
# Source: Dao et al. 2023, Flash-Decoding for long-context inference, https://pytorch.org/blog/flash-decoding/.
#
# ### What goes further than grouping?
#
# - Latent attention caches one small vector for each token and projects it to the keys and values of all heads.
#   DeepSeek-V2 keeps 576 numbers for a token and layer, as much as 2.25 groups of 128.
# - The projection can be folded into the query and output matrices. The rotation stands in the way and gets a few
#   entries of its own.
# - Keys and values in 8 or 4 bits, windows, and sharing a cache between layers all work beside grouping.
#
# Source: DeepSeek-AI 2024, section 2.1, arXiv:2405.04434.
