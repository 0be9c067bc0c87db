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
#     title: Scaled dot-product attention
#     level: 1
#     minutes: 12
#     builds_on: [softmax]
#     sources:
#       - "Vaswani et al. 2017: Attention is all you need, section 3.2.1, arXiv:1706.03762"
# ---

# %% [markdown]
# # Scaled dot-product attention
#
# $$\mathrm{attention}(Q, K, V) = \mathrm{softmax}\!\left(\frac{Q K^\top}{\sqrt{d_k}}\right) V$$
#
# Attention is a soft lookup. A query is compared with every key. The scores become weights that sum to 1,
# and the answer is the weighted mean of the values.
#
# **Write** `scaled_dot_product_attention(q, k, v, mask=None)`.
#
# - **`q`** has shape `(..., s, d_k)`, **`k`** `(..., t, d_k)`, **`v`** `(..., t, d_v)`. The result is `(..., s, d_v)`.
# - **Leading dimensions broadcast**, as in `torch.matmul`: `q` may be `(2, 1, s, d_k)` and `k` `(3, t, d_k)`. There may
#   also be none.
# - **`mask`** is boolean, True = may attend. It broadcasts against `(..., s, t)`, and has at least two dimensions. A
#   masked key has no influence, however large or small the scores are.
# - **A query that may attend to nothing** gets exact zeros, and all gradients stay finite.
# - **Dtype.** The result has the dtype of the inputs. With float16 or bfloat16 softmax is computed in float32. The
#   scores before it and the weights after it may be rounded to the dtype of the inputs, as Llama does. float64 in,
#   float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. Gradients flow back to `q`, `k` and `v`.
# - **No loops** over batch, queries or keys.
# - **Not graded**: masks of one dimension or of another dtype than bool, and no keys at all.
#
# Not allowed: fused attention, such as `F.scaled_dot_product_attention` or `nn.MultiheadAttention`.
# `torch.softmax` is allowed.
#
# **Example.** One query $(2)$, two keys $(\ln 3 / 2)$ and $(0)$ with values $4$ and $8$.
# Here $d_k = 1$, so the scale is 1. The scores are $\ln 3$ and $0$. Their exponentials are $3$ and $1$.
# The weights are $3/4$ and $1/4$, and the result is $3 + 2 = 5$.
# With the second key masked it is $4$, and with both masked $0$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# query, keys, values = 2.0, (math.log(3) / 2, 0.0), (4.0, 8.0)
# exponentials = [math.exp(query * key) for key in keys]
# weights = [e / sum(exponentials) for e in exponentials]
# print("weights", weights, "result", sum(w * v for w, v in zip(weights, values)))

# %% [markdown] tags=["hint"]
# Three lines: scores, weights, weighted mean. Which axis of the scores belongs to the keys?

# %% [markdown] tags=["hint"]
# `q @ k.transpose(-2, -1)` has shape `(..., s, t)`. Divide by the root of `q.shape[-1]`, mask, and take the softmax
# over the last axis. `matmul` broadcasts the leading dimensions for you.

# %% [markdown] tags=["hint"]
# For dead queries: fill blocked scores with the lowest finite number instead of `-inf`, take the softmax, and then set
# blocked weights to 0. A live row does not notice. A dead row becomes zeros, and no nan ever appears.
# With half precision, softmax is computed in float32.

# %%
import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor


# %%
def scaled_dot_product_attention(
    q: Float[Tensor, "*#batch q_len d_k"],
    k: Float[Tensor, "*#batch k_len d_k"],
    v: Float[Tensor, "*#batch k_len d_v"],
    mask: Bool[Tensor, "*#batch #q_len #k_len"] | None = None,
) -> Float[Tensor, "*batch q_len d_v"]:
    """The mean of the values, weighted by the softmax of the scaled products of queries and keys.

    The mask is True where attention is allowed; a query that may attend to nothing gets zeros. Scores and softmax are
    computed in float32 at least. Vaswani et al. 2017, arXiv:1706.03762, section 3.2.1.
    """
    ### BEGIN SOLUTION
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


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Why divide by $\sqrt{d_k}$.** If the entries of $q$ and $k$ are independent with mean 0 and variance 1, then
# $q \cdot k$ is a sum of $d_k$ terms of variance 1. Its standard deviation is $\sqrt{d_k}$.
# Divided by that, scores have the same spread at every width.
# Undivided, the softmax of a wide model is nearly one-hot, and its gradient nearly 0.
#
# **Dead queries.** With `-inf` a row that may attend to nothing is 0/0 in the softmax: nan, forward and backward. The
# lowest finite number keeps all of it finite. Then the blocked weights are set to 0. In a live row they were 0 already;
# in a dead row they were uniform, and now the output is 0.
#
# **Half precision.** Softmax needs float32: its sum over many weights would be rounded again and again. The products
# may stay in half precision, as Llama's do. Here $q$ and $k$ are upcast before theirs, as in the accumulators of fused
# kernels: $300 \cdot 300 = 90{,}000$ is beyond 65,504, the largest float16.
#
# **What it costs.** $O(s\, t\, (d_k + d_v))$ time. Scores and weights take $4\, s\, t$ bytes each in float32, for each
# head and each sequence: 67 MB for 4,096 tokens. A fused kernel stores neither, and its memory is $O(s + t)$.
#
# ## The other formulation
#
# `torch.einsum("...sd,...td->...st", q, k)` needs no transpose. And the division can wait:
# $\big(\sum_t e^{s_t} v_t\big) / \sum_t e^{s_t}$, numerator and denominator summed side by side. Fused kernels
# do that tile by tile, with a running maximum, and never hold all the scores.
#
# ## The usual mistakes
#
# - Softmax over the queries (`dim=-2`). The columns sum to 1, the rows do not.
# - No scale, or `d_k` instead of its root, or the root of `d_v`.
# - The mask inverted, or added as 0 and 1 to the scores.
# - Masking after the softmax and not normalising again.
# - `masked_fill(..., -1e9)` in float16, where it becomes `-inf`.
# - `k.T` for a batch: it reverses all axes. `k.mT` or `transpose(-2, -1)` swaps the last two.

# %% tags=["active-ipynb", "solution"]
# # Who attends to whom: where the values are the unit vectors, the result is the weights
# import matplotlib.pyplot as plt
#
# q, k = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(3)) * 1.5
# masks = {"no mask": None, "causal": torch.ones(8, 8).tril().bool(), "keys 6 and 7 are padding": torch.arange(8) < 6}
# figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
# for axis, (title, mask) in zip(axes, masks.items()):
#     weights = scaled_dot_product_attention(q, k, torch.eye(8), None if mask is None else mask.expand(8, 8))
#     shown = axis.imshow(weights, vmin=0, vmax=1)
#     axis.set(title=title, xlabel="key", ylabel="query")
# figure.colorbar(shown, ax=axes, label="weight")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why are the scores divided by the root of d_k?
#
# - For independent entries of mean 0 and variance 1, $q \cdot k$ has variance $d_k$. The division makes it 1 at every
#   width.
# - Undivided, softmax is nearly one-hot: with 64 keys and $d_k = 64$ the largest weight is 0.8 on average, divided it
#   is 0.11.
# - Softmax that is nearly one-hot has nearly no gradient.
# - It is a statement about the start: training may make the scores as large as it likes.
#
# Source: Vaswani et al. 2017, section 3.2.1, arXiv:1706.03762.
#
# ### Why softmax, and not the plain scores?
#
# - The weights are positive and sum to 1, so the result stays within the range of the values at any length.
# - Large gaps pick, small gaps average. A temperature moves between the two.
# - Without softmax the products can be taken in the other order, $Q (K^\top V)$, in time linear in the length. That is
#   linear attention, with a state of fixed size.
#
# Source: Katharopoulos et al. 2020, arXiv:2006.16236.
#
# ### What does it cost in time and in memory?
#
# - $2\, s\, t\, d_k + 2\, s\, t\, d_v$ operations for each head.
# - Scores and weights are $s \cdot t$ numbers each, for each head and sequence. At 4,096 tokens that is 67 MB in
#   float32.
# - The backward pass needs the weights, or the inputs and a number for each query to recompute them.
# - The projections cost $n d^2$, this $n^2 d$. Long contexts are about the second.
#
# Source: Dao et al. 2022, section 3, arXiv:2205.14135.
#
# ### What changes with a KV cache?
#
# - Only $s$: one new query meets all $t$ keys. The causal mask is then a row of True.
# - The cost of a token falls from $O(t^2)$ to $O(t)$, and the cache grows by a key and a value.
# - Each cached number is used for two operations and is read for it. The step is limited by bandwidth, not by
#   arithmetic.
#
# Source: Pope et al. 2022, section 2.1, arXiv:2211.05102.
#
# ### What breaks in half precision?
#
# - $300 \cdot 300$ is beyond float16. Kernels accumulate the product in float32, and only a score that is stored
#   overflows.
# - Scaling the queries before the product keeps stored scores smaller by $\sqrt{d_k}$.
# - bfloat16 scores near 100 are 0.5 apart, so an exponential is off by up to 28 percent. The softmax should see float32
#   scores.
# - A weighted mean of thousands of values needs a float32 sum.
#
# Source: Micikevicius et al. 2017, section 3.3, arXiv:1710.03740.
#
# ### A query may attend to nothing. What should come out, and how?
#
# - With $-\infty$ the row is 0/0: nan in the values and in every gradient that passes through.
# - Filling with the lowest finite number gives the mean over forbidden keys. Blocked weights must be set to 0
#   afterwards.
# - `torch.nan_to_num` mends the values alone: softmax still sends nan back. `masked_fill` cuts it off there, an
#   additive mask does not.
# - Zeros are a convention: the residual then passes the token on unchanged.
#
# Source: JAX documentation, frequently asked questions, https://docs.jax.dev/en/latest/faq.html.
#
# ### What would a profiler show before and after a fused kernel?
#
# - Before: two batched products, and between them scale, mask and softmax, which read and write the scores each time
#   and take most of the time.
# - After: one kernel. It has a few more operations and far fewer bytes, and memory that grows linearly.
# - Backwards it recomputes the scores tile by tile from the inputs and the log of the sums.
# - If the time did not fall, look at which backend was chosen: dtype, head width or an explicit mask may rule one out.
#
# Source: Dao et al. 2022, section 3.1, arXiv:2205.14135.
#
# ### How would you test it?
#
# - Equal keys give the plain mean of the values. A very large score gives one value.
# - Permuting keys and values together changes nothing.
# - A masked key may hold anything finite: the result must not move.
# - Different $d_k$ and $d_v$, different $s$ and $t$, so that no axis can be confused. Then
#   `F.scaled_dot_product_attention` in float64.
#
# Source: PyTorch documentation of `F.scaled_dot_product_attention`,
# https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html.
