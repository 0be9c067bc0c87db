# ---
# jupyter:
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
# All query heads share **one** key head and one value head: $K$ and $V$ have no index $h$. The KV cache is `num_heads`
# times smaller, and reading the cache is what makes decoding slow.
#
# **Write** `MultiQueryAttention(d_model, num_heads, *, device=None, dtype=None)` with `forward(x, mask=None)`, from
# `(batch, seq, d_model)` to the same shape. `mask` is boolean, True = may attend, and broadcasts against
# `(batch, num_heads, seq, seq)`.
#
# `q_proj` and `o_proj` have weights `(d_model, d_model)`, `k_proj` and `v_proj` `(head_dim, d_model)` with $d$ =
# `head_dim` = `d_model / num_heads`; no biases. Each query head is a block of neighboring rows.
#
# No operation is forbidden, but the point is to write attention out.
#
# **Example.** `d_model = 2`, `num_heads = 2`.
# Let `q_proj` and `o_proj` be the identity, and `k_proj` and `v_proj` both `[[1, 0]]`.
# Take two tokens $x = ((0, 0), (1, 2))$. The shared keys and values are $0$ and $1$.
# Token 0 has query 0 in both heads, so both take the mean, $0.5$.
# Token 1 has query 1 in head 0 and query 2 in head 1, with weights $0.731$ and $0.881$ on the value 1.
# The result is `[[0.5, 0.5], [0.731, 0.881]]`.

# %% [markdown] tags=["contract"]
# - **Masks.** They have two to four dimensions, and may differ from head to head. A masked key has no influence,
#   however large or small the scores are.
# - **Copies.** Keys and values serve all heads by broadcasting, not by `repeat`, `repeat_interleave` or `tile`.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call.

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
# Queries are `(batch, heads, seq, head_dim)`, keys as projected `(batch, seq, head_dim)`. What must stand between
# `batch` and `seq` for the two to broadcast?

# %% [markdown] tags=["hint"]
# Give keys and values a head axis of size 1 with `unsqueeze(-3)`. A plain `@` then serves all heads.
# All else is multi-head attention.

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
class MultiQueryAttention(nn.Module):
    """Self-attention whose query heads all share one key head and one value head.

    Softmax is computed in float32 at least. Raises ValueError if the heads do not divide d_model. Shazeer 2019,
    arXiv:1911.02150.
    """

    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        ### BEGIN SOLUTION
        if d_model % num_heads != 0:
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
        acc = torch.promote_types(q.dtype, torch.float32)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
        heads = weights @ v
        merged = heads.transpose(-3, -2).flatten(-2)  # (batch, seq, d_model)
        return self.o_proj(merged)
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# It is **mha** with two smaller projections and one `unsqueeze`: the head axis of size 1 broadcasts.
#
# **What it costs.** $4 n^2 d_{\mathrm{model}}$ FLOPs for scores and means, as before. The cache has
# $4\,\text{head\_dim}$ bytes a token and layer in bfloat16: 8.2 kB in the 32 layers of Falcon 7B, heads of 64, where
# 71 key heads would take 0.58 MB. Decoding is memory-bound, and each number read now serves all heads: the arithmetic
# intensity of attention rises from 1 FLOP a byte to `num_heads`.
#
# ## The other formulation
#
# `matmul` may copy keys as it broadcasts. To rule that out, fold the heads into the query axis, as GPT-BigCode does:
# `(batch, heads * seq, head_dim)` against `(batch, seq, head_dim)`.
#
# ## The usual mistakes
#
# - `unsqueeze(-2)`: the axis of size 1 comes after `seq`. It may even broadcast.
# - The scale $\sqrt{d_{\mathrm{model}}}$, or the query heads averaged too.
# - `repeat_interleave`, or `expand` and then `reshape`: the copies that the method is there to avoid.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why does a smaller cache make decoding faster?
#
# - A step does few FLOPs and reads the whole cache. With $H$ key heads each number read serves one query, shared it
#   serves $H$.
# - The weights are read too. The gain shows with large batches and long contexts, where the cache is the larger part.
# - A smaller cache also admits more sequences, and those share the reading of the weights: throughput rises.
#
# Source: Shazeer 2019, section 2.4, arXiv:1911.02150.
#
# ### From how many tokens in the batch on does a layer's cache outweigh its attention weights, `heads` heads of 128?
#
# - All in bfloat16: the cache has $4\,\text{head\_dim}$ bytes a token, the four weights
#   $4 d^2 + 4 d\,\text{head\_dim}$ bytes.
# - With $d = H\,\text{head\_dim}$ that is $d\,(H + 1)$ tokens. In multi-head attention it is $2d$.
# - Below that the batch should grow: the weights are read once for all of it.
#
# Answer: `heads * 128 * (heads + 1)` tokens, within 5 %. Settings: `heads` 16, 32, 48.
#
# Source: Pope et al. 2022, section 2.1, arXiv:2211.05102.
#
# ### By how many percent does a layer of `heads` heads shrink whose feed-forward layer has twice attention's weights?
#
# - Keys and values lose $2 d^2 (1 - 1/H)$ of $4 d^2 + 8 d^2$ weights, a sixth at most.
# - In training and prefill that is nearly all of the gain: they are compute-bound, and scores cost what they did.
# - A fair comparison of quality gives the weights back to the feed-forward layer, as the paper does.
#
# Answer: `100 / 6 * (1 - 1 / heads)` percent, within 3 %. Settings: `heads` 2, 4, 8, 32.
#
# Source: Shazeer 2019, section 4, arXiv:1911.02150.
#
# ### How does it split over several GPUs?
#
# - The query heads split, the single key head cannot. Each GPU holds a copy of it and of the whole cache.
# - The cache is $H$ times smaller than with key heads of their own, but more GPUs do not make it smaller still.
# - Splitting the batch instead divides the cache. It takes an all-to-all before and after attention.
#
# Source: Pope et al. 2022, section 3.3, arXiv:2211.05102.
