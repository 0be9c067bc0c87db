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
#     title: Multi-query attention
#     level: 2
#     minutes: 12
#     builds_on: [mha]
#     sources:
#       - "Shazeer 2019: Fast transformer decoding: one write-head is all you need, arXiv:1911.02150"
# ---

# %% [markdown]
# # Multi-query attention
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K^\top}{\sqrt{d}}\right) V, \qquad
# \mathrm{out} = [\mathrm{head}_0, \dots, \mathrm{head}_{H-1}]\, W_O^\top$$
#
# The queries have many heads. The keys and values have **one**, and all query heads share it:
# note that $K$ and $V$ have no index $h$.
# The cache of a decoder becomes `num_heads` times smaller, and reading the cache is what makes decoding slow.
#
# **Write** `MultiQueryAttention(d_model, num_heads, *, device=None, dtype=None)` with `forward(x, mask=None)`.
#
# - **`x`** has shape `(batch, seq, d_model)`; the result has the same. Queries, keys and values all come from `x`.
# - **`head_dim`** is `d_model / num_heads`. It is the $d$ of the formula.
# - **Parameters**, and no others, stored `(out_features, in_features)`, without biases:
#   - `q_proj.weight` and `o_proj.weight`, each `(d_model, d_model)`;
#   - `k_proj.weight` and `v_proj.weight`, each `(head_dim, d_model)`.
#
#   `nn.Linear(bias=False)` is allowed. Initialise them as you like.
# - **Heads.** Query head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1` of the query weight.
#   Its output stands in the same places when the heads are joined.
# - **`mask`** is boolean, True = may attend. It broadcasts against `(batch, num_heads, seq, seq)` and has two to four
#   dimensions. A masked key has no influence, however large or small the scores are.
# - **A query that may attend to nothing** gets exact zeros, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the parameters. With float16 or bfloat16 softmax is computed in float32. The
#   scores before it and the weights after it may be rounded to the dtype of the inputs, as Llama does. float64 in,
#   float64 out; float32 accuracy is enough.
# - **Errors.** If `d_model` is not a multiple of `num_heads`: a `ValueError` that holds both, when the module is built
#   or called.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over heads or batch.
# - **Do not repeat** the keys and values for each head, by `repeat`, `repeat_interleave` or `tile`. Broadcasting serves
#   all heads: a plain `@` over a head axis of size 1 is right, although PyTorch may copy inside it.
# - **Not graded**: copies by `expand` and `reshape`, which is what `@` may do; masks of one dimension or of another
#   dtype than bool, inputs of another dtype than the parameters, and `num_heads` below 1.
#
# No operation is forbidden, but the point is to write attention out.
#
# **Example.** `d_model = 2`, `num_heads = 2`.
# Let `q_proj` and `o_proj` be the identity, and `k_proj` and `v_proj` both `[[1, 0]]`.
# Take two tokens $x = ((0, 0), (1, 2))$. The shared keys and values are $0$ and $1$.
# Token 0 has query 0 in both heads, so both take the mean, $0.5$.
# Token 1 has query 1 in head 0 and query 2 in head 1, with weights $0.731$ and $0.881$ on the value 1.
# The result is `[[0.5, 0.5], [0.731, 0.881]]`.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# queries, shared = ((0, 0), (1, 2)), (0, 1)  # queries by token and head; one key and value a token for both heads
# for token, heads in enumerate(queries):
#     for head, query in enumerate(heads):
#         exponentials = [math.exp(query * key) for key in shared]
#         result = sum(e * value for e, value in zip(exponentials, shared)) / sum(exponentials)
#         print(f"token {token}, head {head}: {result:.3f}")

# %% [markdown] tags=["hint"]
# Start from multi-head attention. Which two weights become smaller, and which axis do the keys then not have?

# %% [markdown] tags=["hint"]
# Queries: `(batch, heads, seq, head_dim)`. Keys as projected: `(batch, seq, head_dim)`.
# What must stand between `batch` and `seq` for the two to broadcast?

# %% [markdown] tags=["hint"]
# Give keys and values a head axis of size 1 with `unsqueeze(-3)`. A plain `@` then serves all heads.
# The mask, the softmax, the merge of the heads and the output projection are those of multi-head attention.

# %%
import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
### BEGIN SOLUTION
def attend(
    q: Float[Tensor, "*batch heads q_len dim"],
    k: Float[Tensor, "*batch 1 k_len dim"],
    v: Float[Tensor, "*batch 1 k_len dim"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None,
) -> Float[Tensor, "*batch heads q_len dim"]:
    """Softmax attention, in float32 at least. A query that may attend to nothing gets zeros."""
    acc = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(acc) @ k.to(acc).transpose(-2, -1)
    scores = scores / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(acc).min)
    weights = torch.softmax(scores, dim=-1)
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return (weights @ v.to(acc)).to(q.dtype)


### END SOLUTION


# %%
class MultiQueryAttention(nn.Module):
    """Self-attention whose query heads all share one key head and one value head.

    Scores, softmax and weighted mean are computed in float32 at least. Raises ValueError if the heads do not divide
    d_model. Shazeer 2019, arXiv:1911.02150.
    """

    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        if num_heads < 1 or d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        super().__init__()
        self.num_heads = num_heads
        head_dim = d_model // num_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, head_dim, bias=False, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, head_dim, bias=False, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, bias=False, device=device, dtype=dtype)
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "*batch seq d_model"], mask: Bool[Tensor, "*#batch #seq #seq"] | None = None
    ) -> Float[Tensor, "*batch seq d_model"]:
        """Self-attention of x. The mask is True where attention is allowed."""
        ### BEGIN SOLUTION
        q = self.q_proj(x).unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)  # (batch, heads, seq, head_dim)
        k = self.k_proj(x).unsqueeze(-3)  # (batch, 1, seq, head_dim)
        v = self.v_proj(x).unsqueeze(-3)
        heads = attend(q, k, v, mask)
        merged = heads.transpose(-3, -2).flatten(-2)  # (batch, seq, d_model)
        return self.o_proj(merged)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# It is multi-head attention with two smaller projections and one `unsqueeze`. The head axis of size 1 broadcasts
# against the query heads, so nothing is repeated in the code. Scale, mask and dead queries are as in **mha**.
#
# **What it costs.** $O(n d^2 + n^2 d)$ time and $4 H n^2$ bytes of scores in float32 for $H$ heads, as in multi-head
# attention. What shrinks is the cache: $4\,\text{head\_dim}$ bytes for each token in bfloat16, instead of $4 d$.
#
# ## The other formulation
#
# `matmul` may still copy the keys for each head behind the scenes. This avoids it for certain: fold the heads into the
# query axis. `q` becomes `(batch, heads * seq, head_dim)` and meets keys `(batch, seq, head_dim)` in one product.
# Unfold the scores before the mask, fold the weights again for the values.
#
# ## The usual mistakes
#
# - `unsqueeze(-2)` instead of `unsqueeze(-3)`: the axis of size 1 stands behind `seq`. It may even broadcast.
# - The scale $\sqrt{d_{\mathrm{model}}}$. The queries still have heads of width `head_dim`.
# - Averaging the query heads too. They stay apart; only keys and values are shared.
# - `repeat_interleave`, or `expand` followed by `reshape`: the copies that the method is there to avoid.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What is saved, and what is not?
#
# - The cache holds `2 * head_dim` numbers for each token and layer instead of `2 * d_model`.
# - The projections of keys and values shrink by `num_heads`.
# - Scores and weighted means cost what they did: every query head still meets every key.
#
# Source: Shazeer 2019, section 3, arXiv:1911.02150.
#
# ### Why does a smaller cache make decoding faster?
#
# - A step does little arithmetic and reads the whole cache. With $H$ heads of their own, each number read serves one
#   query.
# - Shared, it serves $H$: in bfloat16 the work for each byte rises from 1 operation to $H$.
# - The weights are read too. The gain shows with large batches and long contexts, where the cache is the larger part.
# - A smaller cache also admits more sequences, and those share the reading of the weights.
#
# Source: Shazeer 2019, section 2.4, arXiv:1911.02150.
#
# ### Does it help training or prefill?
#
# - Not by its cache: there is none to read, and arithmetic is the limit. The scores cost the same.
# - The projections of keys and values nearly vanish: half of the four, and a sixth of a layer whose feed-forward part
#   is `4 * d_model` wide.
# - With equal `d_model` the model has fewer weights. A fair comparison gives them back to the feed-forward layer.
#
# Source: Shazeer 2019, section 4, arXiv:1911.02150.
#
# ### What is lost, and when would you choose it all the same?
#
# - A little quality, and some models trained less steadily.
# - Choose it where the cache decides: very long contexts, large batches, small devices.
# - Grouped-query attention with a few key heads is nearly as fast and nearly as good. Most models take that.
#
# Source: Ainslie et al. 2023, arXiv:2305.13245.
#
# ### How does it split over several devices?
#
# - The query heads split, the single key head cannot. Each device holds a copy of it and of the whole cache.
# - The cache is $H$ times smaller than with key heads of their own, but more devices do not make it smaller still.
# - Sharding the batch instead divides the cache. It needs an exchange between all devices around the attention.
#
# Source: Pope et al. 2022, section 3.3, arXiv:2211.05102.
#
# ### What would a profiler show if the keys were copied for each head?
#
# - Copy kernels before the products, and memory that is `num_heads` times that of the keys.
# - `expand` makes a view without a copy. `reshape` after it, or a batched product that wants plain strides, copies.
# - In decoding the copy reads and writes as much as the method was to save.
# - Folding the heads into the query axis makes one product for each sequence: `(heads * q_len, head_dim)` by
#   `(head_dim, k_len)`.
#
# Source: PyTorch documentation of `Tensor.expand`,
# https://docs.pytorch.org/docs/stable/generated/torch.Tensor.expand.html.
#
# ### How would you test it?
#
# - Against multi-head attention with the key and value weights repeated for each head: equal to rounding.
# - A length other than the number of heads: otherwise an axis of size 1 in the wrong place may broadcast unseen.
# - Query heads with different weights must give different results.
# - The memory: no tensor of the size of repeated keys.
#
# Source: Shazeer 2019, section 3, arXiv:1911.02150.
