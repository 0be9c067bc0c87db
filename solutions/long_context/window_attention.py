# ---
# jupyter:
#   dojo:
#     title: Window attention with sinks
#     level: 3
#     minutes: 20
#     builds_on: [causal_mask, sdpa]
#     sources:
#       - "Xiao et al. 2023: Efficient Streaming Language Models with Attention Sinks, arXiv:2309.17453"
#       - "OpenAI 2025: gpt-oss-120b and gpt-oss-20b Model Card, arXiv:2508.10925"
# ---

# %% [markdown]
# # Window attention with sinks
#
# $$\mathrm{weight}_{ij} = \frac{e^{s_{ij}}}{e^{b_h} + \sum_{j'} e^{s_{ij'}}}, \qquad
# s_{ij} = \frac{q_i \cdot k_j}{\sqrt{d}}$$
#
# Heads with nothing to say leave their weight on the first tokens, and break when those leave the window. Hence
# *sinks*: first tokens that stay visible, or a learned logit $b_h$ that takes weight.
#
# **Write** `window_mask(q_len, k_len=None, *, window, sinks=0, device=None)`, boolean `(q_len, k_len)`, True = may
# attend. Query $i$, at position $p$ = `k_len - q_len + i`, sees the keys $j \le p$ with $p - j <$ `window` or
# $j <$ `sinks`. `k_len` defaults to `q_len`.
#
# **Write** `attention_with_sinks(q, k, v, sink_logits, mask=None)`, from `(..., heads, s, d)`, `(..., heads, t, d)`,
# `(..., heads, t, d_v)` and `(heads,)` to `(..., heads, s, d_v)`. `mask` broadcasts against `(..., heads, s, t)`.
#
# Not allowed: fused attention, `F.scaled_dot_product_attention`.
#
# **Example.** `window_mask(2, 5, window=2, sinks=1)`: the queries stand at 3 and 4.
#
# ```
# [[True, False, True,  True,  False],
#  [True, False, False, True,  True ]]
# ```
#
# A head with two scores of 0 and a sink of 0 gives its keys the weights $1/3$ and $1/3$: values 3 and 6 become 3.

# %% [markdown] tags=["contract"]
# - **Positions.** The queries are the last of the keys. A window counts the token itself, and may be wider than all
#   keys.
# - **Device.** The mask is made on `device`.
# - **Masks.** They may differ from head to head. A masked key has no influence, however large or small the scores are.
# - **Masked rows.** A query that may attend to nothing gets exact zeros, with a sink of `-inf` too, and all gradients
#   stay finite.
# - **Sinks.** One of `-inf` makes plain attention, one of 200 no nan. They may be float32 where the rest is not.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
# - **Errors.** A `window` below 1; `sink_logits` that are not one for each head.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# for position in (3, 4):
#     print(f"position {position} sees", [j <= position and (position - j < 2 or j < 1) for j in range(5)])
# scores, sink, values = (0.0, 0.0), 0.0, (3.0, 6.0)
# total = math.exp(sink) + sum(math.exp(score) for score in scores)
# weights = [math.exp(score) / total for score in scores]
# print("weights", weights, "result", sum(w * v for w, v in zip(weights, values)))

# %% [markdown] tags=["hint"]
# The mask is a causal mask and another condition. Positions of queries and keys, one as a column and one as a row, are
# all you need. What would a head do if its sink were a key like any other, whose value is zero?

# %% [markdown] tags=["hint"]
# Three conditions and two operators: `causal & (near | first)`. For the sink, give each row of scores one more column,
# take the softmax, and drop the column again. It has had its share by then.

# %% [markdown] tags=["hint"]
# `torch.cat([scores, sink_logits[:, None, None].expand(*scores.shape[:-1], 1)], dim=-1)`, then
# `F.softmax(..., dim=-1, dtype=torch.float32)[..., :-1]`. Fill masked scores with the lowest finite number before, and
# masked weights with 0 after.

# %%
import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


# %%
def window_mask(
    q_len: int, k_len: int | None = None, *, window: int, sinks: int = 0, device: torch.device | str | None = None
) -> Bool[Tensor, "q_len k_len"]:
    """True where a query may attend: to the last `window` keys up to itself, and to the first `sinks` of those.

    The queries are the last of the keys. Raises ValueError for a window below 1.
    """
    ### BEGIN SOLUTION
    if window < 1:
        raise ValueError(f"window {window} is below 1: a token sees itself")
    if k_len is None:
        k_len = q_len
    offset = k_len - q_len
    query_position = torch.arange(q_len, device=device) + offset
    key_position = torch.arange(k_len, device=device)
    causal = key_position <= query_position[:, None]
    near = key_position > query_position[:, None] - window
    first = key_position < sinks
    return causal & (near | first)
    ### END SOLUTION


# %%
def attention_with_sinks(
    q: Float[Tensor, "*batch heads q_len d_k"],
    k: Float[Tensor, "*batch heads k_len d_k"],
    v: Float[Tensor, "*batch heads k_len d_v"],
    sink_logits: Float[Tensor, "heads"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
) -> Float[Tensor, "*batch heads q_len d_v"]:
    """Attention in which each head's logit joins the sum in the denominator and brings no value.

    The mask is True where attention is allowed; a query that may attend to nothing gets zeros. Softmax is computed in
    float32 at least. Raises ValueError for sink_logits that are not one for each head.
    """
    ### BEGIN SOLUTION
    if sink_logits.shape != q.shape[-3:-2]:
        raise ValueError(f"sink_logits of shape {tuple(sink_logits.shape)} for {q.shape[-3]} heads")
    acc = torch.promote_types(q.dtype, torch.float32)
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    sinks = sink_logits[:, None, None].expand(*scores.shape[:-1], 1)
    scores = torch.cat([scores, sinks], dim=-1)  # one more key, which is always seen
    weights = F.softmax(scores, dim=-1, dtype=acc).to(q.dtype)
    weights = weights[..., :-1]  # and has no value
    if mask is not None:
        weights = weights.masked_fill(~mask, 0.0)
    return weights @ v
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **The mask is its definition**, three comparisons of a column and a row, each of which makes booleans alone: one byte
# an entry, where a matrix of distances would take eight. `causal` stands outside of the brackets, for the first queries
# of a prompt stand before the last sink, which they must not see.
#
# **The sink is a key** whose score is given and whose value is 0. As a column it is in the maximum and in the sum, and
# nowhere else. Weights no longer sum to 1: a head that finds nothing gives nearly nothing, instead of the mean of what
# it did not look for. That is what the first tokens do in models without a sink: their keys win, their values are
# small.
#
# **What it costs.** Written out, a window saves nothing: all $s\,t$ scores are made. A kernel that skips what the
# window hides takes $4\,s\,w\,d$ FLOPs a head instead of $2\,s^2 d$. Decoding is memory-bound, and there it counts:
# with 8 key heads of 128 in bfloat16 a step reads 0.5 MB a layer for $w = 128$, and 537 MB for all 131,072 tokens, 0.16
# ms on an H100.
#
# ## The other formulation
#
# Plain attention times $\sigma(\mathrm{lse} - b)$, lse being the logarithm of the sum of exponentials that flash
# attention returns anyway: $\frac{A}{A + e^b} = \sigma(\ln A - b)$. A kernel need not know of the sink.
#
# Without a column: the sink in the maximum, `exp(sink - max)` in the sum, and a division.
#
# ## The usual mistakes
#
# - A window one too wide: `window` counts the token itself, so `p - j <= window` is wrong.
# - `(causal & near) | first`: the first queries see sinks that come after them.
# - Positions counted from 0 with a cache: the queries are the last of the keys.
# - The sink divided by $\sqrt{d}$, or the weights normalized again without it: then it might as well not be there.
# - One logit for all heads: each has its own need of rest.

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why do trained models put so much weight on the first token?
#
# - Weights of a softmax sum to 1, also where a head finds nothing. The first token is visible to all, so it is learned
#   as the place to leave them.
# - Its value is small, so little is added. What the token says does not matter.
# - A window that drops it takes the largest term out of the denominator, and perplexity explodes.
#
# Source: Xiao et al. 2023, section 3.1, arXiv:2309.17453.
#
# ### How many tokens back does a model of `layers` layers with a window of `window` see at most?
#
# - One layer reaches $w - 1$ tokens back, $L$ layers $L\,(w - 1)$: 131,040 for $w = 4{,}096$ and 32 layers.
# - That is a bound. What passes through many layers is summed up each time, and exact copies from far are rare.
#
# Answer: `layers * (window - 1)` tokens, within 2 %. Settings: `layers` 24, 32; `window` 128, 1024, 4096.
#
# Source: Jiang et al. 2023, Mistral 7B, section 2, arXiv:2310.06825.
#
# ### Five layers of six have a window of `window`: what percentage of the KV cache is left at `tokens` tokens?
#
# - The full layers keep a sixth. The others keep $w$ of $n$ tokens, which at long contexts is nearly nothing.
# - Full layers look things up anywhere, windows do the rest at a fixed price. Gemma 3 has windows of 1,024.
#
# Answer: `100 * (1 + 5 * window / tokens) / 6` percent, within 5 %. Settings: `window` 512, 1024; `tokens` 8192,
# 131072.
#
# Source: Gemma Team 2025, arXiv:2503.19786.
#
# ### How is the cache of a window kept?
#
# - A ring of $w$ rows: token $p$ overwrites row `p % w`. Attention does not mind the order of keys.
# - Sinks have rows of their own, which are never overwritten.
# - Keys are cached with their rotation, or rotated when they are read, if positions are renumbered within the cache.
#
# Source: Jiang et al. 2023, arXiv:2310.06825; Xiao et al. 2023, section 3.2, arXiv:2309.17453.
#
# ### Where do libraries disagree about a window?
#
# - Here, in Mistral and in transformers `window` counts the token itself.
# - FlashAttention's `window_size=(left, right)` counts the others: the same window is `(window - 1, 0)`.
# - A test with window 1 shows it: every token sees itself alone.
#
# Source: FlashAttention, README, https://github.com/Dao-AILab/flash-attention.
