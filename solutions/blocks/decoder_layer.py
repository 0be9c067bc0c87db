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
#     title: Decoder layer with cross-attention
#     level: 3
#     minutes: 30
#     builds_on: [encoder_layer, causal_mask, mha]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, section 3.1, arXiv:1706.03762"
# ---

# %% [markdown]
# # Decoder layer with cross-attention
#
# $$h_1 = \mathrm{norm}_s\big(x + \mathrm{attn}_s(x)\big), \qquad
# h_2 = \mathrm{norm}_c\big(h_1 + \mathrm{attn}_c(h_1, \mathrm{memory})\big), \qquad
# y = \mathrm{norm}_f\big(h_2 + \mathrm{ffn}(h_2)\big)$$
#
# This layer writes one text while it reads another. First it attends to what has been written so far (causal
# self-attention), then to the source (cross-attention: queries from `x`, keys and values from `memory`). A feed-forward
# layer follows.
#
# **Write** `DecoderLayer(d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None)` with
# `forward(x, memory, memory_padding=None)`: `x` is `(batch, seq, d_model)`, `memory` `(batch, mem_len, d_model)`, and
# the result `(batch, seq, d_model)`.
#
# The parts, with exactly these parameters, stored `(out_features, in_features)`:
#
# - **`self_attn`**, **`cross_attn`**: multi-head attention as in the kata **mha**, but **with biases**. Each has
#   `q_proj`, `k_proj`, `v_proj` and `o_proj`, each with a `weight` `(d_model, d_model)` and a `bias` `(d_model,)`.
#   Head `h` owns the rows `h * head_dim ... (h + 1) * head_dim - 1`; the scores are divided by
#   $\sqrt{\text{head\_dim}}$.
# - **`ffn`**: $W_2\,\mathrm{gelu}(W_1 x + b_1) + b_2$ with the exact gelu, as in **gelu_ffn**. `ffn.fc1.weight`
#   `(d_ff, d_model)`, `ffn.fc1.bias` `(d_ff,)`, `ffn.fc2.weight` `(d_model, d_ff)`, `ffn.fc2.bias` `(d_model,)`.
# - **`self_attn_norm`**, **`cross_attn_norm`**, **`ffn_norm`**: LayerNorm over the last dimension with
#   $\varepsilon$ = `eps`, each with a `weight` and a `bias` of shape `(d_model,)` that start as ones and zeros.
#
# - **Causal**: token `t` attends to tokens `0 ... t` of `x`. It may look at all of the memory.
# - **`memory_padding`** is boolean, of shape `(batch, mem_len)`, **True = a real token**. Nothing attends to padding.
#   If a row of the memory is nothing but padding, the weighted mean of the cross-attention is exact zeros, which
#   `o_proj` then turns into its bias. All gradients stay finite.
# - **Dropout** acts in training mode only. Each entry is set to 0 with probability `dropout`, and the others are
#   divided by `1 - dropout`. It acts on the feed-forward branch: after gelu, after `fc2`, or both. Whether it acts
#   elsewhere is up to you; the branches of the attentions, before they are added, are usual. In evaluation mode nothing
#   is dropped.
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
# **Example.** Let the two `o_proj` and `ffn.fc2` be zero, weights and biases: all branches are silent. Then
# $x = (1, 3)$ has mean 2 and deviation 1, becomes $(-1, 1)$ in the first norm, and stays so in the other two.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# x = (1.0, 3.0)  # all three branches silent
# for step in ("self-attention", "cross-attention", "feed-forward"):
#     mean = sum(x) / 2
#     deviation = (sum((v - mean) ** 2 for v in x) / 2) ** 0.5
#     x = tuple((v - mean) / deviation for v in x)
#     print("after the norm of the", step, x)

# %% [markdown] tags=["hint"]
# Three lines, one for each branch, each `x = norm(x + branch(x))`. Which of them sees the memory, and as what?

# %% [markdown] tags=["hint"]
# The causal mask has shape `(seq, seq)` and goes to the self-attention. The padding of the memory has shape
# `(batch, 1, 1, mem_len)` and goes to the cross-attention. Neither mask fits the other attention.

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
class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention on a memory, feed-forward: each added, then normalised.

    Scores, softmax and norms are computed in float32 at least. Raises ValueError if the heads do not divide d_model.
    Vaswani et al. 2017, arXiv:1706.03762, section 3.1.
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
        self.self_attn_norm = nn.LayerNorm(d_model, eps, device=device, dtype=dtype)
        self.cross_attn = MultiHeadAttention(d_model, num_heads, device=device, dtype=dtype)
        self.cross_attn_norm = nn.LayerNorm(d_model, eps, device=device, dtype=dtype)
        self.ffn = FeedForward(d_model, d_ff, dropout, device=device, dtype=dtype)
        self.ffn_norm = nn.LayerNorm(d_model, eps, device=device, dtype=dtype)
        self.dropout = nn.Dropout(dropout)
        ### END SOLUTION

    def forward(
        self,
        x: Float[Tensor, "batch seq d_model"],
        memory: Float[Tensor, "batch mem_len d_model"],
        memory_padding: Bool[Tensor, "batch mem_len"] | None = None,
    ) -> Float[Tensor, "batch seq d_model"]:
        """The layer applied to x, reading the memory. The padding is True where a token of the memory is real."""
        ### BEGIN SOLUTION
        seq = x.shape[1]
        causal = torch.ones(seq, seq, dtype=torch.bool, device=x.device).tril()
        mask = None if memory_padding is None else memory_padding[:, None, None, :]
        x = self.self_attn_norm(x + self.dropout(self.self_attn(x, x, causal)))
        x = self.cross_attn_norm(x + self.dropout(self.cross_attn(x, memory, mask)))
        x = self.ffn_norm(x + self.dropout(self.ffn(x)))
        return x
        ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Queries ask, the memory answers.** In cross-attention the queries come from what is being written, keys and values
# from the source. The scores are `seq × mem_len`: nothing says the two lengths agree.
#
# **Causality is needed once.** Only self-attention could leak a later token. The memory is finished before the first
# token is written, so all of it may be seen at once.
#
# **Target padding needs no mask.** It stands at the end, and the causal mask already hides what comes later.
#
# **What it costs.** For $n$ tokens and a memory of $m$, $O((n + m)\, d^2 + n\, (n + m)\, d + n\, d\, d_{\mathrm{ff}})$
# time. The matrices are $8 d^2 + 2\, d\, d_{\mathrm{ff}}$ numbers, 4 bytes each in float32. The scores take $4 H n^2$
# bytes in self-attention and $4 H n m$ in cross-attention.
#
# ## The other formulation
#
# `nn.TransformerDecoderLayer(d_model, num_heads, d_ff, activation="gelu", batch_first=True)` is this layer, given a
# causal `tgt_mask`. Its `memory_key_padding_mask` is True where a token is **not** real.
#
# ## The usual mistakes
#
# - Keys from the memory and values from `x`.
# - Queries from the memory: the result then has the length of the source.
# - The causal mask given to the cross-attention: token 0 then reads only the first word of the source.
# - Cross-attention before self-attention, or on the input of the layer instead of on what the first branch made.
# - One norm for two branches.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Which attention sees what?
#
# - Self-attention: queries, keys and values from the target, causal.
# - Cross-attention: queries from the target, keys and values from the memory. No causality, only the padding of the
#   memory.
# - The memory is finished before the first token is written, so seeing all of it leaks nothing.
#
# Source: Vaswani et al. 2017, section 3.2.3, arXiv:1706.03762.
#
# ### What is cached when it writes token by token?
#
# - Keys and values of the self-attention: one more each step.
# - Those of the cross-attention once, from the memory. Projecting it anew at each step costs $4 m d^2$ operations a
#   layer for nothing.
# - In beam search the memory's part is shared by all beams, the other is reordered with them.
#
# Source: Shazeer 2019, section 2.4, arXiv:1911.02150.
#
# ### What does it cost for a long memory and a short target?
#
# - For $n$ target tokens and a memory of $m$: the projections of the memory, $4 m d^2$ operations, and scores and
#   means, $4 n m d$.
# - The scores take $4 H n m$ bytes in float32, not $m^2$.
# - In decoding each step reads the keys and values of the whole memory. Shared key heads shrink that too.
#
# Source: Vaswani et al. 2017, section 4, arXiv:1706.03762.
#
# ### Why did language models drop cross-attention?
#
# - With the source in the same sequence, self-attention does both. One stack is simpler, and all weights serve all
#   tokens.
# - The prompt is then computed causally once and stays in the same cache.
# - An encoder still reads both ways, and for one task with plenty of pairs it is strong for its size.
#
# Source: Wang et al. 2022, arXiv:2204.05832.
#
# ### Where would you still choose cross-attention?
#
# - Where the source is another kind of data: audio in Whisper, images in Flamingo, text under diffusion models.
# - Where the source is long and the target short: the cost is $n m$, not $(n + m)^2$.
# - Added to a frozen language model, with a gate that starts at 0, it changes nothing at first.
#
# Source: Alayrac et al. 2022, section 2.2, arXiv:2204.14198.
#
# ### Could all three branches run side by side?
#
# - As in the parallel block: one norm, one addition, larger products.
# - The look-up in the memory would no longer depend on what this layer's self-attention has gathered. The layer after
#   it still can.
# - It is another function. A checkpoint of the sequential layer does not carry over.
#
# Source: Chowdhery et al. 2022, section 2, arXiv:2204.02311.
#
# ### What breaks in half precision?
#
# - The memory comes as the caller made it. Its large entries overflow a score that is stored in float16.
# - A memory row of padding alone gives 0/0 with $-\infty$. With the lowest finite number and zeroed weights it gives
#   `o_proj`'s bias.
# - Three norms with an eps of $10^{-12}$, which float16 rounds to 0.
#
# Source: Micikevicius et al. 2017, section 3.3, arXiv:1710.03740.
#
# ### How would you test it?
#
# - Change a later target token: earlier results stay. Change any memory token: all results move.
# - Different lengths of target and memory: otherwise swapped axes go unseen.
# - Permute the memory: nothing changes, for there is no order in the layer itself.
# - Step by step with caches against the whole target at once.
#
# Source: Vaswani et al. 2017, section 3.1, arXiv:1706.03762.
