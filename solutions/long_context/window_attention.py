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
# In a window each query sees only the newest keys, so cost and cache stop growing. Trained models break when their
# first tokens leave the window: a softmax must spend its weight somewhere, and heads that have nothing to say spend it
# there. Two remedies are called *sink*: the first tokens stay visible, or each head $h$ has a learnt logit $b_h$ that
# takes weight and brings no value.
#
# **Write** `window_mask(q_len, k_len=None, *, window, sinks=0, device=None)`.
#
# - **Result:** a boolean tensor of shape `(q_len, k_len)` on `device`, True = may attend. `k_len` defaults to `q_len`.
# - **Who sees whom:** query $i$ stands at $p$ = `k_len - q_len + i`. It sees key $j$ if $j \le p$, and either
#   $p - j <$ `window` or $j <$ `sinks`. So a window of 1 is the token itself.
# - **`q_len = 0`** gives an empty mask. Each call gives a mask of its own.
# - **The number of operations** does not grow with lengths, window or sinks. The computation stays in PyTorch, and no
#   intermediate tensor is much larger than the mask.
# - **A `ValueError`** whose message holds the offending values: a negative length; `k_len < q_len`; `window < 1`;
#   `sinks < 0`.
#
# **Write** `attention_with_sinks(q, k, v, sink_logits, mask=None)`.
#
# - **`q`** has shape `(..., heads, s, d)`, **`k`** `(..., heads, t, d)`, **`v`** `(..., heads, t, d_v)`. The result is
#   `(..., heads, s, d_v)`. Leading dimensions broadcast, that of the heads of `k` and `v` too.
# - **`sink_logits`** has shape `(heads,)`, the dtype of `q` or float32. A head's logit joins the sum in its
#   denominator as it is: it is not divided by $\sqrt{d}$. `-inf` makes plain attention of it; 200 gives no nan.
# - **`mask`** is boolean, True = may attend, and broadcasts against `(..., heads, s, t)`. It has two dimensions or
#   more.
# - **A query that may attend to nothing** gets exact zeros, with a sink of `-inf` too, and all gradients stay finite.
# - **Dtype.** The result has the dtype of `q`. float16 and bfloat16 are exponentiated and summed in float32; scores and
#   weights may be rounded to the dtype of the inputs. float64 in, float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow to `q`, `k`, `v` and
#   `sink_logits`. No loops over batch, heads, queries or keys.
# - **A `ValueError`** whose message holds the length: `sink_logits` that are more or fewer than the heads of `q`.
# - **Not graded:** which of two wrong arguments is named, a `q` of two dimensions, and no keys at all.
#
# Not allowed: fused attention, such as `F.scaled_dot_product_attention`. `torch.softmax` is allowed.
#
# **Example.** `window_mask(2, 5, window=2, sinks=1)`: the queries stand at 3 and 4.
#
# ```
# [[True, False, True,  True,  False],
#  [True, False, False, True,  True ]]
# ```
#
# A head with two scores of 0 and a sink of 0 gives its keys the weights $1/3$ and $1/3$: values 3 and 6 become 3.

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
# `sink_logits[:, None, None]`, take the softmax, and drop the column again. It has had its share by then.

# %% [markdown] tags=["hint"]
# Or without a column: `top = maximum(scores.amax(-1, keepdim=True), sink)`, `exps = exp(scores - top)`, and divide by
# `exps.sum(-1, keepdim=True) + exp(sink - top)`. Fill masked scores with the lowest finite number, and set their `exps`
# to 0. Only a query that sees nothing and has no sink has a sum of 0.

# %%
import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


# %%
def window_mask(
    q_len: int, k_len: int | None = None, *, window: int, sinks: int = 0, device: torch.device | str | None = None
) -> Bool[Tensor, "q_len k_len"]:
    """True where a query may attend: to the last `window` keys up to itself, and to the first `sinks` of those.

    The queries are the last of the keys.

    Raises:
        ValueError: a length is negative, there are fewer keys than queries, window < 1, or sinks < 0.
    """
    ### BEGIN SOLUTION
    if k_len is None:
        k_len = q_len
    if q_len < 0 or k_len < q_len:
        raise ValueError(f"need 0 <= q_len <= k_len, got q_len {q_len} and k_len {k_len}")
    if window < 1:
        raise ValueError(f"window {window} is below 1: a token sees itself")
    if sinks < 0:
        raise ValueError(f"sinks {sinks} is negative")
    offset = k_len - q_len
    query_position = torch.arange(q_len, device=device) + offset
    key_position = torch.arange(k_len, device=device)
    causal = key_position <= query_position[:, None]
    near = query_position[:, None] - key_position < window
    first = key_position < sinks
    return causal & (near | first)
    ### END SOLUTION


# %%
def attention_with_sinks(
    q: Float[Tensor, "*#batch heads q_len d_k"],
    k: Float[Tensor, "*#batch #heads k_len d_k"],
    v: Float[Tensor, "*#batch #heads k_len d_v"],
    sink_logits: Float[Tensor, "heads"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
) -> Float[Tensor, "*batch heads q_len d_v"]:
    """Attention in which each head's logit joins the sum in the denominator and brings no value.

    The mask is True where attention is allowed; a query that may attend to nothing gets zeros. Scores and exponentials
    are computed in float32 at least.

    Raises:
        ValueError: sink_logits are more or fewer than the heads of q.
    """
    ### BEGIN SOLUTION
    if sink_logits.shape != q.shape[-3:-2]:
        raise ValueError(f"sink_logits of shape {tuple(sink_logits.shape)} for {q.shape[-3]} heads")
    acc = torch.promote_types(q.dtype, torch.float32)
    scores = q.to(acc) @ k.to(acc).transpose(-2, -1)
    scores = scores / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(~mask, torch.finfo(acc).min)
    sink = sink_logits.to(acc)[:, None, None]
    top = torch.maximum(scores.amax(dim=-1, keepdim=True), sink).detach()
    exps = torch.exp(scores - top)
    if mask is not None:
        exps = exps.masked_fill(~mask, 0.0)
    total = exps.sum(dim=-1, keepdim=True) + torch.exp(sink - top)
    # The largest term is exp(0) = 1: only a query that sees nothing, and has no sink, has a smaller sum.
    weights = exps / total.clamp_min(1.0)
    return (weights @ v.to(acc)).to(q.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# The mask is its definition: three comparisons of positions. `causal` stands outside of the brackets, for a sink of the
# future must not be seen either: the first queries of a prompt stand before the last sink.
#
# The sink is a key whose score is given and whose value is 0. So it is in the maximum and in the sum, and nowhere else.
# Left out of the maximum, $e^{b - \mathrm{top}}$ overflows float32 where the logit is 89 above all scores.
#
# Weights of a head no longer sum to 1. A head that finds nothing gives nearly nothing, instead of the mean of what it
# did not look for. That is what the first tokens did for models without a sink: their keys win, their values are small.
#
# **What it costs.** $O(s\, t\, d)$ time and $4\, s\, t$ bytes for the scores of a head in float32: this mask saves
# nothing yet. A kernel that skips what the window hides takes $O(s\, w\, d)$, and a cache holds $w$ keys of all $t$:
# with 8 key heads of 128 in bfloat16 and $w = 128$ that is 0.5 MB a layer, at 128,000 tokens without a window 524 MB.
#
# ## The other formulation
#
# Plain attention times $\sigma(\mathrm{lse} - b)$, lse being the logarithm of the sum of exponentials that flash
# attention returns anyway: $\frac{A}{A + e^b} = \sigma(\ln A - b)$. A kernel need not know of the sink.
#
# Or a column more: `softmax(cat([scores, sink], -1))[..., :-1]`, as transformers does it.
#
# ## The usual mistakes
#
# - A window one too wide: `window` counts the token itself, so `p - j <= window` is wrong.
# - `(causal & near) | first`: the first queries see sinks that come after them.
# - Positions counted from 0 with a cache: the queries are the last of the keys.
# - The sink divided by $\sqrt{d}$, or the weights normalised again without it: then it might as well not be there.
# - One logit for all heads: each has its own need of rest.

# %% tags=["active-ipynb", "solution"]
# # Left: who sees whom. Right: what a head gives to its keys, by its sink, with scores weak and strong
# import matplotlib.pyplot as plt
#
# figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
# left.imshow(window_mask(16, window=5, sinks=2), cmap="Blues", vmin=0, vmax=1)
# left.set(title="window_mask(16, window=5, sinks=2)", xlabel="key", ylabel="query")
# logits = torch.linspace(-6, 10, 100)
# ones = torch.ones(100, 1, 8, 1)
# for score in (0.0, 3.0, 6.0):
#     keys = torch.zeros(100, 8, 1)
#     keys[:, 0] = score
#     given = attention_with_sinks(torch.ones(100, 1, 1), keys, torch.ones(100, 8, 1), logits)
#     right.plot(logits, given.flatten(), label=f"one score of {score:.0f}, seven of 0")
# right.set(title="sum of the weights of 8 keys", xlabel="sink logit")
# right.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why do trained models put so much weight on the first token?
#
# - Weights of a softmax sum to 1, also where a head finds nothing. The first token is visible to all, so it is learnt
#   as the place to leave them.
# - Its value is small, so little is added. What the token says does not matter.
# - A window that drops it takes the largest term out of the denominator, and perplexity explodes.
#
# Source: Xiao et al. 2023, section 3.1, arXiv:2309.17453.
#
# ### How far back does a model with windows see?
#
# - One layer reaches $w - 1$ tokens back, $L$ layers $L\,(w - 1)$: 131,000 for $w = 4{,}096$ and 32 layers.
# - That is a bound. What passes through many layers is summed up each time, and exact copies from far are rare.
#
# Source: Jiang et al. 2023, Mistral 7B, section 2, arXiv:2310.06825.
#
# ### Why do models mix layers with a window and layers without?
#
# - Full layers look things up anywhere, windows do the rest at a fixed price: Gemma 3 has five windows for each full
#   layer.
# - The cache is then mostly that of the full layers: about a sixth, at long contexts.
#
# Source: Gemma Team 2025, arXiv:2503.19786.
#
# ### How is the cache of a window kept?
#
# - A ring of $w$ rows: token $p$ overwrites row `p % w`. Attention does not mind the order of keys.
# - Sinks have rows of their own, which are never overwritten.
# - Keys are cached with their rotation, or turned when they are read, if positions are renumbered within the cache.
#
# Source: Jiang et al. 2023, arXiv:2310.06825; Xiao et al. 2023, section 3.2, arXiv:2309.17453.
#
# ### What is better about a learnt logit than about kept tokens?
#
# - It needs no key, no value and no place in the cache, and each head sets its own.
# - Heads can rest without large activations in the first token, which are hard to quantise.
# - It must be there in training: added later, all weights shrink.
#
# Source: OpenAI 2025, arXiv:2508.10925; Miller 2023, https://www.evanmiller.org/attention-is-off-by-one.html.
#
# ### How does the sink enter a flash kernel?
#
# - At the end: the running sum gets $e^{b - \mathrm{top}}$ once, before the division.
# - Or outside: the output times $\sigma(\mathrm{lse} - b)$. Split over keys, it counts once, not in each split.
# - Its gradient is minus the sink's weight times the product of output and its gradient, summed over queries.
#
# Source: Dao 2023, arXiv:2307.08691; FlashAttention, https://github.com/Dao-AILab/flash-attention.
#
# ### Where do libraries disagree about a window?
#
# - Here, in Mistral and in transformers `window` counts the token itself.
# - FlashAttention's `window_size=(left, right)` counts the others: the same window is `(window - 1, 0)`.
# - A test with window 1 tells: every token sees itself alone.
#
# Source: FlashAttention, README, https://github.com/Dao-AILab/flash-attention.
