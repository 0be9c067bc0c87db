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
#     title: The backward pass of attention
#     level: 4
#     minutes: 30
#     builds_on: [flash_attention]
#     sources:
#       - "Dao 2023: FlashAttention-2, algorithm 2, arXiv:2307.08691"
#       - "Dao et al. 2022: FlashAttention, appendix B, arXiv:2205.14135"
# ---

# %% [markdown]
# # The backward pass of attention
#
# $$P = e^{S - \mathrm{lse}}, \qquad D_i = dO_i \cdot O_i, \qquad dV = P^\top dO, \qquad
# dS = P \circ (dO\, V^\top - D), \qquad dQ = \frac{dS\, K}{\sqrt{d_k}}, \qquad dK = \frac{dS^\top Q}{\sqrt{d_k}}$$
#
# What every attention kernel does on its way back: no weights were kept, only `out` and `lse`, and the weights are made
# again from those. $S = Q K^\top / \sqrt{d_k}$.
#
# **Write** `attention_backward(q, k, v, out, lse, grad_out, causal=False)`. `q` has shape `(..., s, d_k)`, `k` has
# `(..., t, d_k)` and `v` has `(..., t, d_v)`; `out` and `grad_out` have `(..., s, d_v)`, `lse` has `(..., s)`. What
# stands for `...` is the same in all of them. The results are a tuple `(grad_q, grad_k, grad_v)`, of the shapes of `q`,
# `k` and `v`, by the formulas above.
#
# - **`causal`** lets the last query see all keys, the query before it all but one, and so on: query $i$ sees key $j$
#   where $j \le t - s + i$. Hidden entries of $P$ are 0, even where their scores are so far above `lse` that the
#   exponential overflows.
# - **`out` and `lse`** are taken as they are given. They may come from more keys than these, as where the keys are
#   split over devices: rows of $P$ then sum to less than 1. Nor need `lse` be above the scores. The formulas hold all
#   the same.
# - **No graph.** The results carry none, whatever the inputs do. `torch.no_grad` and `detach` are allowed; the
#   grad mode is left as it was.
# - **Dtype.** The results have the dtype of `q`. `lse` is float32 where the others are float16 or bfloat16, and is not
#   to be rounded. Exponentials and sums are float32; scores, weights and $dS$ may be rounded to the dtype of the inputs
#   before a product. float64 in, float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops; matrices of $s \cdot t$ are allowed.
# - **A `ValueError`** whose message holds both lengths: `causal` with fewer keys than queries.
# - **Not graded:** no keys or no queries at all, leading axes that broadcast.
#
# Not allowed: autograd in any form (`torch.autograd`, `torch.func`, `.backward()`), `softmax`, fused attention.
#
# **Example.** The query $(2)$, the keys $(\ln 3 / 2)$ and $(0)$ with the values $4$ and $8$, and $dO = 1$. The scores
# are $\ln 3$ and $0$, so `lse` is $\ln 4$, $P = (3/4, 1/4)$ and `out` is $5$. $D = 5$ and
# $dS = (\tfrac34 (4 - 5), \tfrac14 (8 - 5)) = (-\tfrac34, \tfrac34)$. Then $dV = (\tfrac34, \tfrac14)$,
# $dQ = -\tfrac34 \cdot \ln 3 / 2 = -0.41198$ and $dK = (-\tfrac32, \tfrac32)$.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import math
#
# query, keys, values, grad = 2.0, (math.log(3) / 2, 0.0), (4.0, 8.0), 1.0
# lse, output = math.log(4), 5.0
# weights = [math.exp(query * key - lse) for key in keys]
# grad_scores = [p * (grad * value - grad * output) for p, value in zip(weights, values)]
# print("weights", weights, "gradient of the scores", grad_scores)
# print("grad_q", sum(g * key for g, key in zip(grad_scores, keys)), "grad_k", [g * query for g in grad_scores])

# %% [markdown] tags=["hint"]
# Go back through the forward pass one product at a time: $O = P V$, then the softmax, then $S = Q K^\top / \sqrt{d_k}$.
# Each product gives two gradients, and each is a product with the other factor transposed.

# %% [markdown] tags=["hint"]
# Softmax of a row: $dS = P \circ (dP - \sum_j P_j\, dP_j)$. The sum needs no weights: it is $dO \cdot O$, one number
# for each query.

# %% [markdown] tags=["hint"]
# `(scores - lse[..., None]).exp().masked_fill(hidden, 0.0)` with
# `hidden = torch.arange(t) > torch.arange(t - s, t)[:, None]`; `(grad_out * out).sum(-1, keepdim=True)`; then four
# products. Upcast and detach all six inputs first.

# %%
import math

import torch
from jaxtyping import Float
from torch import Tensor


# %%
def attention_backward(
    q: Float[Tensor, "*batch q_len d_k"],
    k: Float[Tensor, "*batch k_len d_k"],
    v: Float[Tensor, "*batch k_len d_v"],
    out: Float[Tensor, "*batch q_len d_v"],
    lse: Float[Tensor, "*batch q_len"],
    grad_out: Float[Tensor, "*batch q_len d_v"],
    causal: bool = False,
) -> tuple[Float[Tensor, "*batch q_len d_k"], Float[Tensor, "*batch k_len d_k"], Float[Tensor, "*batch k_len d_v"]]:
    """The gradients of queries, keys and values, from what the forward pass has kept: out and lse.

    lse is float32 at least. The results have the dtype of q, and no graph. Dao 2023, arXiv:2307.08691, algorithm 2.

    Raises:
        ValueError: causal queries outnumber their keys.
    """
    ### BEGIN SOLUTION
    s, t, dtype = q.shape[-2], k.shape[-2], q.dtype
    if causal and t < s:
        raise ValueError(f"causal attention of {s} queries to {t} keys: the first queries would see none")
    acc = torch.promote_types(dtype, torch.float32)
    q, k, v, out, lse, grad_out = (each.detach().to(acc) for each in (q, k, v, out, lse, grad_out))
    scale = 1 / math.sqrt(q.shape[-1])
    scores = q @ k.transpose(-2, -1) * scale
    weights = (scores - lse[..., None]).exp()
    if causal:
        place = torch.arange(t - s, t, device=q.device)[:, None]
        weights = weights.masked_fill(torch.arange(t, device=q.device) > place, 0.0)
    row_dot = (grad_out * out).sum(dim=-1, keepdim=True)
    grad_weights = grad_out @ v.transpose(-2, -1)
    grad_scores = weights * (grad_weights - row_dot)
    grad_q = grad_scores @ k * scale
    grad_k = grad_scores.transpose(-2, -1) @ q * scale
    grad_v = weights.transpose(-2, -1) @ grad_out
    return grad_q.to(dtype), grad_k.to(dtype), grad_v.to(dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Products.** For $C = A B$ the gradients are $dA = dC\, B^\top$ and $dB = A^\top dC$. So $O = P V$ gives
# $dP = dO\, V^\top$ and $dV = P^\top dO$. $S = Q K^\top / \sqrt{d_k}$ gives $dQ$ and $dK$, each with the scale once.
#
# **Softmax.** $\partial P_j / \partial S_i = P_j (\delta_{ij} - P_i)$, so $dS_i = P_i (dP_i - \sum_j P_j\, dP_j)$. And
# $\sum_j P_j\, dP_j = \sum_j P_j\, (dO \cdot v_j) = dO \cdot O$: a sum over keys has become a product of two rows that
# lie there already. That is why a kernel can go through the keys block by block, in any order.
#
# **The mask** is a 0 behind the exponential. Hidden scores took no part in `lse`, may be far above it, and
# $e^{100}$ is infinite in float32; infinity times 0 would be nan.
#
# **What it costs.** $O(s\, t\, (d_k + d_v))$ time: five products where the forward pass has two. Here three matrices of
# $s \cdot t$ lie side by side, 12 bytes for each score in float32; kernels hold a block of them, and of what was kept
# only $4\, s$ bytes a head for `lse` beside `out`.
#
# ## The other formulation
#
# $D$ may be taken as $\sum_j P_j\, dP_j$, as autograd does for softmax. It is the same where `out` and `lse` belong to
# these keys, and wrong where they come from more. It also needs all keys of a row before the first $dS$.
#
# ## The usual mistakes
#
# - $D$ forgotten: every score then gets a gradient of the sign of $dP$.
# - $P (1 - P)$, the derivative of a sigmoid: it leaves out that weights compete.
# - The scale left out in $dQ$ and $dK$, or applied to $dS$ and to them.
# - $P$ multiplied by the mask where it has overflowed.
# - `lse` rounded to bfloat16: at 1000 its steps are 4, a factor of up to 7 in the weights.

# %% tags=["active-ipynb", "solution"]
# # The unit vectors as dO give the weights back as grad_v, and the unit vectors as keys give dS: its rows sum to 0
# import matplotlib.pyplot as plt
#
# n, generator = 8, torch.Generator().manual_seed(2)
# q, v = torch.randn(2, n, n, generator=generator) * 1.5
# k, grad = torch.eye(n) * 3, torch.randn(n, n, generator=generator)
# scores = (q @ k.mT / n**0.5).masked_fill(~torch.ones(n, n).tril().bool(), -torch.inf)
# out, lse = scores.softmax(-1) @ v, scores.logsumexp(-1)
# weights = attention_backward(q, k, v, out, lse, torch.eye(n), causal=True)[2].mT
# grad_scores = attention_backward(q, k, v, out, lse, grad, causal=True)[0] * n**0.5 / 3
# figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
# for axis, shown, title in zip(axes, (weights, grad_scores), ("weights P", "dS: a weight gained is a weight lost")):
#     figure.colorbar(axis.imshow(shown, cmap="coolwarm", vmin=-1, vmax=1), ax=axis)
#     axis.set(title=title, xlabel="key", ylabel="query")
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### What is the derivative of softmax?
#
# - $\partial P_j / \partial S_i = P_j (\delta_{ij} - P_i)$: a matrix for each row.
# - Times a gradient it is $P \circ (dP - \sum_j P_j\, dP_j)$, and no matrix is made.
#
# Source: Goodfellow, Bengio, Courville 2016, Deep Learning, section 6.2.2, https://www.deeplearningbook.org.
#
# ### Why do the rows of dS sum to 0?
#
# - A constant added to all scores of a row changes no weight, so the gradient has no part in that direction.
# - It holds where rows of $P$ sum to 1: $\sum_j P_j\, dP_j - D \sum_j P_j = 0$.
#
# Source: Dao et al. 2022, appendix B.2, arXiv:2205.14135.
#
# ### Why does the way back take longer than the way forward?
#
# - Five products against two: scores again, $dP$, $dV$, $dQ$ and $dK$.
# - $dQ$ sums over keys and $dK$, $dV$ over queries: whichever way the loops go, one of them is added up across blocks.
#
# Source: Dao 2023, section 3.1.2, arXiv:2307.08691.
#
# ### Why is D made before the loop over blocks?
#
# - It needs `out` and `grad_out` alone, $s \cdot d_v$ products, and is then one number a query.
# - As $\sum_j P_j\, dP_j$ it would take a loop over all keys of its own.
#
# Source: Dao et al. 2022, appendix B.4, arXiv:2205.14135.
#
# ### How is the gradient of a dropped weight found without keeping the mask?
#
# - The state of the generator is kept, and the same mask is drawn again in each block.
# - $D$ stays $dO \cdot O$, since `out` has been made with the dropped weights.
#
# Source: Dao et al. 2022, appendix B.3, arXiv:2205.14135.
#
# ### Why may two runs of a kernel differ in grad_q?
#
# - Blocks of keys add to the same rows of $dQ$ by atomic additions, whose order is not fixed.
# - Float addition is not associative. Deterministic kernels fix the order, and take more memory or time.
#
# Source: flash-attention, the argument deterministic, https://github.com/Dao-AILab/flash-attention.
#
# ### How would you test a backward pass by hand?
#
# - Against autograd in float64, with other lengths, widths and a causal mask, and against finite differences.
# - Not with a gradient of ones alone: a transposed or summed axis hides behind it.
#
# Source: PyTorch, torch.autograd.gradcheck, https://docs.pytorch.org/docs/stable/generated/torch.autograd.gradcheck.gradcheck.html.
