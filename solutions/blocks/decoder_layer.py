# ---
# jupyter:
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
# $$h_1 = \mathrm{norm}_s\big(x + \mathrm{attn}_s(x)\big), \quad
# h_2 = \mathrm{norm}_c\big(h_1 + \mathrm{attn}_c(h_1, \mathrm{memory})\big), \quad
# y = \mathrm{norm}_f\big(h_2 + \mathrm{ffn}(h_2)\big)$$
#
# It writes one text while it reads another: causal self-attention, then cross-attention (queries from `x`, keys and
# values from `memory`), then a feed-forward layer.
#
# **Write** `DecoderLayer(d_model, num_heads, d_ff, dropout=0.0, eps=1e-12, *, device=None, dtype=None)` with
# `forward(x, memory, memory_padding=None)`: `x` `(batch, seq, d_model)` to the same shape, `memory`
# `(batch, mem_len, d_model)`, `memory_padding` boolean `(batch, mem_len)`, True = a real token.
#
# Attention as in **mha** with biases, feed-forward as in **gelu_ffn**, LayerNorms:
#
# ```
# self_attn, cross_attn: q_proj, k_proj, v_proj, o_proj   weight (d_model, d_model), bias (d_model,)
# ffn.fc1, ffn.fc2                                        weight (d_ff, d_model) and (d_model, d_ff), bias
# self_attn_norm, cross_attn_norm, ffn_norm               weight, bias (d_model,)
# ```
#
# The stub holds only the layer: write its parts too, or import your own. No operation of PyTorch is forbidden.
#
# **Example.** Let the two `o_proj` and `ffn.fc2` be zero, weights and biases: all branches are silent. Then
# $x = (1, 3)$ has mean 2 and deviation 1, becomes $(-1, 1)$ in the first norm, and stays so in the other two.

# %% [markdown] tags=["contract"]
# - **Causal.** Token `t` attends to tokens `0 ... t` of `x`, of any number of them, and to all of the memory.
# - **Padding.** Nothing attends to padding of the memory, however loud it is or low the scores are.
# - **Masked rows.** Where a row of the memory is nothing but padding, the weighted mean of the cross-attention is exact
#   zeros, which `o_proj` turns into its bias. Gradients stay finite.
# - **Dropout.** In training mode alone, each entry on its own: 0 with probability `dropout`, else divided by `1 -
#   dropout`. It acts on the feed-forward branch: after gelu, after `fc2`, or both; elsewhere it is up to you.
# - **Norms.** They start as ones and zeros; `eps` reaches all three.
# - **Half precision.** Softmax and norms in float32. Scores and weights may each be rounded.
# - **Errors.** `d_model` no multiple of `num_heads`, at construction or at the call.

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
        self,
        x: Float[Tensor, "batch q_len d_model"],
        source: Float[Tensor, "batch k_len d_model"],
        mask: Bool[Tensor, "#batch #heads #q_len k_len"] | None,
    ) -> Float[Tensor, "batch q_len d_model"]:
        q = split_heads(self.q_proj(x), self.num_heads)
        k = split_heads(self.k_proj(source), self.num_heads)
        v = split_heads(self.v_proj(source), self.num_heads)
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
class DecoderLayer(nn.Module):
    """Causal self-attention, cross-attention on a memory, feed-forward: each added, then normalized.

    Softmax and norms are computed in float32 at least. Raises ValueError if the heads do not divide d_model.
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
# **What it costs.** For $n$ tokens and a memory of $m$: $n (12 d^2 + 4 d\, d_{\mathrm{ff}}) + 4 m d^2$ FLOPs for the
# matrices and $4 n (n + m) d$ for scores and means. At width 512 with 2,048 inside, 128 tokens over a memory of 512
# take 1.6 GFLOPs, a third of them to project the memory: done once in generation, and cached. The layer's 4.2 million
# weights have 8.4 MB in bfloat16.
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
# ### How many MB do the caches of one such layer take: memory `mem_len`, target `seq`, width `d`, in bfloat16?
#
# - Keys and values of the self-attention, one more each step: $4\, n\, d$ bytes at $n$ tokens.
# - Those of the cross-attention once, from the memory: $4\, m\, d$ bytes. Projecting it anew at each step costs
#   $4 m d^2$ FLOPs a layer for nothing.
# - In beam search the memory's part is shared by all beams, the other is reordered with them.
#
# Answer: `4 * (mem_len + seq) * d / 1e6` MB, within 5 %. Settings: `mem_len` 512, 1500; `seq` 100, 448; `d` 1024, 1280.
#
# Source: Shazeer 2019, section 2.4, arXiv:1911.02150.
#
# ### How many GFLOPs does its cross-attention take for `seq` target tokens over `mem_len` of memory at width `d`?
#
# - Projections of queries and output $4 n d^2$, of the memory $4 m d^2$, scores and means $4 n m d$.
# - The scores take $2 H n m$ bytes in bfloat16, not $(n + m)^2$ as in one sequence.
# - In decoding each step reads the keys and values of the whole memory: memory-bound. Shared key heads shrink that too.
#
# Answer: `(4 * seq * d**2 + 4 * mem_len * d**2 + 4 * seq * mem_len * d) / 1e9` GFLOPs, within 10 %. Settings: `seq` 64,
# 256; `mem_len` 512, 1500; `d` 1024.
#
# Source: Vaswani et al. 2017, section 4, arXiv:1706.03762.
#
# ### Why did language models drop cross-attention, and where would you still choose it?
#
# - With the source in the same sequence, self-attention does both: one stack, one cache, all weights serve all tokens.
# - An encoder still reads both ways, and for one task with plenty of pairs it is strong for its size.
# - Where the source is another kind of data it stays: audio in Whisper, images in Flamingo, text under diffusion
#   models.
# - Added to a frozen language model, with a gate that starts at 0, it changes nothing at first.
#
# Source: Wang et al. 2022, arXiv:2204.05832; Alayrac et al. 2022, section 2.2, arXiv:2204.14198.
