# ---
# jupyter:
#   dojo:
#     title: Encoder layer, as in BERT
#     level: 3
#     minutes: 25
#     builds_on: [mha, gelu_ffn, layernorm]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, section 3.1, arXiv:1706.03762"
#       - "Devlin et al. 2018: BERT, arXiv:1810.04805"
# ---

# %% [markdown]
# # Encoder layer
#
# $$h = \mathrm{norm}_a\big(x + \mathrm{attn}(x)\big), \qquad y = \mathrm{norm}_f\big(h + \mathrm{ffn}(h)\big)$$
#
# The layer of BERT and of the encoder of 2017: post-norm, every token attends to every real one.
#
# **Write** `EncoderLayer(d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None)` with
# `forward(x, padding=None)`, from `(batch, seq, d_model)` to the same shape. `padding` is boolean `(batch, seq)`,
# True = a real token.
#
# Attention is that of **mha** with biases, the feed-forward layer that of **gelu_ffn**, both norms are LayerNorms:
#
# ```
# self_attn.{q_proj, k_proj, v_proj, o_proj}   weight (d_model, d_model), bias (d_model,)
# ffn.fc1, ffn.fc2                             weight (d_ff, d_model) and (d_model, d_ff), bias
# attn_norm, ffn_norm                          weight, bias (d_model,)
# ```
#
# The stub holds only the layer: write its parts too, or import your own. No operation of PyTorch is forbidden.
#
# **Example.** Let `self_attn.o_proj` and `ffn.fc2` be zero, weights and biases: both branches are silent. Then
# $x = (1, 3)$ has mean 2 and deviation 1, and the layer gives $(-1, 1)$: post-norm normalizes even what it does not
# change.

# %% [markdown] tags=["contract"]
# - **Padding.** No token attends to padding, however loud it is or low the scores are. Padded tokens themselves are
#   computed like all others.
# - **Masked rows.** In a row of nothing but padding the weighted mean is exact zeros, which `o_proj` turns into its
#   bias. Gradients stay finite.
# - **Dropout.** In training mode alone, each entry on its own: 0 with probability `dropout`, else divided by `1 -
#   dropout`. It acts on the feed-forward branch: after gelu, after `fc2`, or both; elsewhere it is up to you.
# - **Norms.** They start as ones and zeros; `eps` reaches both.
# - **Half precision.** Softmax and norms in float32. Scores and weights may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# x = (1.0, 3.0)  # both branches silent: what is left is norm(norm(x))
# for step in ("attention", "feed-forward"):
#     mean = sum(x) / 2
#     deviation = (sum((v - mean) ** 2 for v in x) / 2) ** 0.5
#     x = tuple((v - mean) / deviation for v in x)
#     print("after the norm of the", step, x)

# %% [markdown] tags=["hint"]
# Two lines, one for each branch. The norm is around the sum, not inside the branch.

# %% [markdown] tags=["hint"]
# A mask for the scores has shape `(batch, heads, q_len, k_len)`. Padding is about keys: `padding[:, None, None, :]`.

# %% [markdown] tags=["hint"]
# For rows of padding alone: fill blocked scores with the lowest finite number, take the softmax, and set blocked
# weights to 0 afterwards. With `-inf` such a row is nan, forward and backward.

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


# %%
### BEGIN SOLUTION
def split_heads(x: Float[Tensor, "batch seq d_model"], num_heads: int) -> Float[Tensor, "batch heads seq head_dim"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(-3, -2)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        if d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], mask: Bool[Tensor, "batch 1 1 seq"] | None
    ) -> Float[Tensor, "batch seq d_model"]:
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(x), self.num_heads)
        v = split_heads(self.v_proj(x), self.num_heads)
        acc = torch.promote_types(q.dtype, torch.float32)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        heads = weights @ v
        merged = heads.transpose(-3, -2).flatten(-2)
        return self.o_proj(merged)


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int, dropout: float, *, device=None, dtype=None):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(d_ff, d_model, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        hidden = F.gelu(self.fc1(x))
        hidden = self.dropout(hidden)
        return self.fc2(hidden)


### END SOLUTION


# %%
class EncoderLayer(nn.Module):
    """norm(x + attn(x)), then norm(x + ffn(x)): post-norm with LayerNorm and GELU, biases everywhere.

    Softmax and norms are computed in float32 at least. Raises ValueError if the heads do not divide d_model.
    Vaswani et al. 2017, arXiv:1706.03762; Devlin et al. 2018, arXiv:1810.04805.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        dropout: float = 0.0,
        eps: float = 1e-12,
        *,
        device=None,
        dtype=None,
    ):
        ### BEGIN SOLUTION
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
        self.attn_norm = nn.LayerNorm(d_model, eps, device=device, dtype=dtype)
        self.ffn = FeedForward(d_model, d_ff, dropout, device=device, dtype=dtype)
        self.ffn_norm = nn.LayerNorm(d_model, eps, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(
        self, x: Float[Tensor, "batch seq d_model"], padding: Bool[Tensor, "batch seq"] | None = None
    ) -> Float[Tensor, "batch seq d_model"]:
        """The layer applied to x. Padding is True where a token is real."""
        ### BEGIN SOLUTION
        mask = None if padding is None else padding[:, None, None, :]
        x = self.attn_norm(x + self.dropout(self.self_attn(x, mask)))
        x = self.ffn_norm(x + self.dropout(self.ffn(x)))
        return x
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Padding is a matter of keys.** A padded token must not be seen. What it sees itself does not matter, since nobody
# reads its result. So one axis of the mask suffices, and it broadcasts over heads and queries.
#
# **Post-norm.** Every sum is normalized, so the output of each layer has mean 0 and variance 1 before weight and bias.
# The price is a residual path that passes through every norm: gradients shrink or grow with depth,
# and training needs a warm-up. The kata **block** has the comparison.
#
# **Why eps is so small.** BERT was written with $10^{-12}$. In float16 that number is 0, another reason for computing
# the norm in float32. For activations of ordinary size neither matters.
#
# **What it costs.** $2 n (4 d^2 + 2\, d\, d_{\mathrm{ff}}) + 4 n^2 d$ FLOPs for $n$ tokens, padding included: 7.2 + 0.8
# GFLOPs for 512 tokens of BERT base, whose 7.1 million weights a layer have 14 MB in bfloat16. The products are
# compute-bound from some 300 tokens in the batch on. Not fused, the scores take $2 H n^2$ bytes in bfloat16: 6.3 MB at
# 12 heads, 1.6 GB at 8,192 tokens.
#
# ## The other formulation
#
# `nn.TransformerEncoderLayer(d_model, num_heads, d_ff, activation="gelu", batch_first=True)` is this layer. It keeps
# the three projections as one `in_proj_weight` of `(3 * d_model, d_model)`, and its `src_key_padding_mask` is True
# where a token is **not** real.
#
# ## The usual mistakes
#
# - The mask inverted: libraries disagree on what True means.
# - `padding[:, None, :, None]`, which silences queries instead of keys.
# - The norm inside the branch: that is pre-norm.
# - The second branch read from the input of the layer.
# - Dropout after the norm, or outside of training.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What do the biases buy?
#
# - Little. A bias on keys has no effect at all: it adds the same number to all scores of a query, and softmax drops it.
# - One on values passes through as it is, since the weights sum to 1. It can be merged into that of the output.
# - One on queries is real: it prefers some keys whoever asks.
# - For a checkpoint all of them must be there. A test in which they are zero tests nothing.
#
# Source: Namazifar, Hazarika, Hakkani-Tur 2023, arXiv:2302.08626.
#
# ### Which mask goes where, and what comes out for a padded token?
#
# - Padding blocks keys: `(batch, 1, 1, seq)`. Padded queries are computed, and nobody reads them.
# - A row of padding alone has no key. Its weighted mean is set to 0, or nan spreads through the gradients of the
#   weights, even if the loss skips it.
# - Where results are averaged, padding must be left out of the sum and of the count.
#
# Source: PyTorch documentation of `nn.TransformerEncoderLayer`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html.
#
# ### At how many tokens do scores and means take as many FLOPs as the weights, for width `d` and `d_ff` = `ratio` · d?
#
# - The weights take $2 n (4 d^2 + 2 d\, d_{\mathrm{ff}})$ FLOPs, scores and means $4 n^2 d$.
# - For BERT's width 768 and four times as much inside they are equal at 4,608 tokens: at 512 attention is a tenth of
#   the FLOPs, at 8,192 two thirds.
# - Windows in most layers and full attention in a few keep long inputs cheap.
#
# Answer: `(2 + ratio) * d` tokens, within 5 %. Settings: `d` 768, 1024, 4096; `ratio` 3, 4.
#
# Source: Warner et al. 2024, section 2.1, arXiv:2412.13663.
#
# ### What share of the FLOPs goes to padding, in percent: one text of `longest` tokens, `others` others of `short`?
#
# - Padded tokens go through every product: only the real ones count.
# - Sort by length, or pack several texts into one row with a mask of blocks.
# - Kernels for variable lengths take a flat list of tokens and the borders. Then only attention has to know them.
#
# Answer: `100 * others * (longest - short) / (longest * (others + 1))` percent, within 5 %. Settings: `longest` 512;
# `others` 7, 31; `short` 64, 128, 256.
#
# Source: Krell et al. 2021, arXiv:2107.02027.
