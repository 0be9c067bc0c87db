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
# The layer of BERT and of the encoder of 2017. Every token may attend to every other. It must not attend to padding,
# the filler that makes all rows of a batch equally long.
#
# **Write** `EncoderLayer(d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None)` with
# `forward(x, padding=None)`, from `(batch, seq, d_model)` to the same shape.
#
# The parts, with exactly these parameters, stored `(out_features, in_features)`:
#
# - **`self_attn`**: multi-head self-attention as in the kata **mha**, but **with biases**. `self_attn.q_proj`,
#   `self_attn.k_proj`, `self_attn.v_proj` and `self_attn.o_proj`, each with a `weight` `(d_model, d_model)` and a
#   `bias` `(d_model,)`. Head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1`; the scores are divided by
#   $\sqrt{\text{head\_dim}}$.
# - **`ffn`**: $W_2\,\mathrm{gelu}(W_1 x + b_1) + b_2$ with the exact gelu, as in **gelu_ffn**. `ffn.fc1.weight`
#   `(d_ff, d_model)`, `ffn.fc1.bias` `(d_ff,)`, `ffn.fc2.weight` `(d_model, d_ff)`, `ffn.fc2.bias` `(d_model,)`.
# - **`attn_norm`**, **`ffn_norm`**: LayerNorm over the last dimension with $\varepsilon$ = `eps`, each with a
#   `weight` and a `bias` of shape `(d_model,)` that start as ones and zeros.
#
# - **`padding`** is boolean, of shape `(batch, seq)`, **True = a real token**. No token attends to padding. Padded
#   tokens themselves are computed like all others. If a row is nothing but padding, its tokens attend to nothing: the
#   weighted mean is exact zeros, which `o_proj` then turns into its bias. All gradients stay finite.
# - **Dropout** acts in training mode only. Each entry is set to 0 with probability `dropout`, and the others are
#   divided by `1 - dropout`. It acts on the feed-forward branch: after gelu, after `fc2`, or both. Whether it acts
#   elsewhere is up to you; the branch of the attention, before it is added, is usual. In evaluation mode nothing is
#   dropped or scaled.
# - **Dtype.** The result has the dtype of the parameters. float64 in, float64 out; float32 accuracy is enough. In
#   float16 and bfloat16, softmax and norms are computed in float32. Scores and weights may each be rounded once more.
# - **Errors.** If `d_model` is not a multiple of `num_heads`: a `ValueError` that holds both, at construction or at
#   the call.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over heads or batch.
# - **Not graded:** empty batches, padding of another dtype, a `dropout` outside 0 to 1, and how matrices are
#   initialised.
#
# The stub holds only the layer. Write the parts yourself, or import your own from other katas.
# No operation of PyTorch is forbidden, and the computation stays in it.
#
# **Example.** Let `self_attn.o_proj` and `ffn.fc2` be zero, weights and biases: both branches are silent. Then
# $x = (1, 3)$ has mean 2 and deviation 1, and the layer gives $(-1, 1)$: post-norm normalises even what it does not
# change.

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
class MultiHeadAttention(nn.Module):
    def __init__(self, d_model: int, num_heads: int, *, device=None, dtype=None):
        if num_heads < 1 or d_model % num_heads != 0:
            raise ValueError(f"d_model {d_model} is not a multiple of num_heads {num_heads}")
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)
        self.k_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)
        self.v_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)
        self.o_proj = nn.Linear(d_model, d_model, device=device, dtype=dtype)

    def forward(
        self,
        x: Float[Tensor, "batch q_len d_model"],
        context: Float[Tensor, "batch k_len d_model"],
        mask: Bool[Tensor, "#batch #heads #q_len k_len"] | None = None,
    ) -> Float[Tensor, "batch q_len d_model"]:
        acc = torch.promote_types(x.dtype, torch.float32)
        q = self.split_heads(self.q_proj(x)).to(acc)
        k = self.split_heads(self.k_proj(context)).to(acc)
        v = self.split_heads(self.v_proj(context)).to(acc)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(acc).min)
        weights = torch.softmax(scores, dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)
        heads = (weights @ v).to(x.dtype)
        return self.o_proj(heads.transpose(-3, -2).flatten(-2))

    def split_heads(self, x: Float[Tensor, "batch seq d_model"]) -> Float[Tensor, "batch heads seq head_dim"]:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)


class FeedForward(nn.Module):
    def __init__(self, d_model: int, d_ff: int, dropout: float, *, device=None, dtype=None):
        super().__init__()
        self.fc1 = nn.Linear(d_model, d_ff, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        self.fc2 = nn.Linear(d_ff, d_model, device=device, dtype=dtype)

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        return self.fc2(self.dropout(F.gelu(self.fc1(x))))


### END SOLUTION


# %%
class EncoderLayer(nn.Module):
    """norm(x + attn(x)), then norm(x + ffn(x)): post-norm with LayerNorm and GELU, biases everywhere.

    Scores, softmax and norms are computed in float32 at least. Raises ValueError if the heads do not divide d_model.
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
        x = self.attn_norm(x + self.dropout(self.self_attn(x, x, mask)))
        x = self.ffn_norm(x + self.dropout(self.ffn(x)))
        return x
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Padding is a matter of keys.** A padded token must not be seen. What it sees itself does not matter, since nobody
# reads its result. So one axis of the mask suffices, and it broadcasts over heads and queries.
#
# **Post-norm.** Every sum is normalised, so the output of each layer has mean 0 and variance 1 before weight and bias.
# The price is a residual path that passes through every norm: gradients shrink or grow with depth,
# and training needs a warm-up. The kata **block** has the comparison.
#
# **Why eps is so small.** BERT was written with $10^{-12}$. In float16 that number is 0, another reason for computing
# the norm in float32. For activations of ordinary size neither matters.
#
# **What it costs.** $O(n d^2 + n^2 d + n\, d\, d_{\mathrm{ff}})$ time for $n$ tokens, padding included. The matrices
# are $4 d^2 + 2\, d\, d_{\mathrm{ff}}$ numbers, 4 bytes each in float32. The largest tensors are the scores, $4 H n^2$
# bytes for $H$ heads.
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
# ### Why can BERT not generate text?
#
# - Each token has seen those after it. Trained that way, it cannot do without them.
# - A new token changes the states of all others, so nothing can be cached: $n$ tokens cost $n$ full passes.
# - It can fill gaps, several at once, but independently of each other.
#
# Source: Devlin et al. 2018, section 3.1, arXiv:1810.04805.
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
# ### What does padding cost, and what would you do about it?
#
# - Padded tokens go through every product. In a corpus of short texts up to half of the work is for nothing.
# - Sort by length, or pack several texts into one row with a mask of blocks.
# - Kernels for variable lengths take a flat list of tokens and the borders. Then only attention has to know them.
#
# Source: Krell et al. 2021, arXiv:2107.02027.
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
# ### Why does post-norm need a warm-up?
#
# - At the start the gradients near the output are large, and do not shrink with depth.
# - Full steps with them throw the weights far off before Adam has good estimates.
# - Ways out: warm-up, pre-norm, or a residual scaled up by a factor that grows with depth.
#
# Source: Xiong et al. 2020, section 3, arXiv:2002.04745; Wang et al. 2022, arXiv:2203.00555.
#
# ### What breaks in half precision?
#
# - An eps of $10^{-12}$ is 0 in float16. A constant vector is then 0/0.
# - A fill of $-10^9$ for padding is $-\infty$ in float16.
# - Norms, softmax and their sums belong in float32. Autocast does that, a plain `model.half()` does not.
#
# Source: PyTorch documentation of `torch.amp`, https://docs.pytorch.org/docs/stable/amp.html.
#
# ### What would a profiler show at length 512, and at 8,192?
#
# - Width 768, feed-forward 3,072: the weights cost $24 n d^2$ operations, attention $4 n^2 d$. They are equal at
#   $n = 6d = 4{,}608$.
# - At 512 attention is a tenth of the operations, at 8,192 two thirds.
# - Not fused, the scores of 12 heads at 8,192 take 3.2 GB in float32 a sequence. Memory ends before time does.
# - Windows in most layers and full attention in a few keep long inputs cheap.
#
# Source: Warner et al. 2024, section 2.1, arXiv:2412.13663.
#
# ### How would you test it?
#
# - A text alone and the same text padded in a batch: equal to rounding on the real tokens.
# - Garbage in the padded places changes nothing.
# - Against `nn.TransformerEncoderLayer` with the weights copied, and with its mask inverted.
# - Dropout: two calls differ in training, none in evaluation, and the branches are dropped, not the residual.
#
# Source: PyTorch documentation of `nn.TransformerEncoderLayer`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.TransformerEncoderLayer.html.
