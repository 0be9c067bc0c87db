# ---
# jupyter:
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
# What every attention kernel does in backward: the forward pass kept no weights, only `out` and `lse`, the logarithm of
# each row's sum of exponentials, and the weights are recomputed from it. $S = Q K^\top / \sqrt{d_k}$.
#
# **Write** `attention_backward(q, k, v, out, lse, grad_out, causal=False)`, which gives a tuple
# `(grad_q, grad_k, grad_v)`. `q` has shape `(..., s, d_k)`, `k` `(..., t, d_k)` and `v` `(..., t, d_v)`; `out` and
# `grad_out` have `(..., s, d_v)`, `lse` has `(..., s)`. What stands for `...` is the same in all of them. Matrices of
# $s \cdot t$ are allowed.
#
# Not allowed: autograd in any form (`torch.autograd`, `torch.func`, `.backward()`), `softmax`, fused attention.
#
# **Example.** The query $(2)$, the keys $(\ln 3 / 2)$ and $(0)$ with the values $4$ and $8$, and $dO = 1$. The scores
# are $\ln 3$ and $0$, so `lse` is $\ln 4$, $P = (3/4, 1/4)$ and `out` is $5$. $D = 5$ and
# $dS = (\tfrac34 (4 - 5), \tfrac14 (8 - 5)) = (-\tfrac34, \tfrac34)$. Then $dV = (\tfrac34, \tfrac14)$,
# $dQ = -\tfrac34 \cdot \ln 3 / 2 = -0.41198$ and $dK = (-\tfrac32, \tfrac32)$.

# %% [markdown] tags=["contract"]
# - **Causal.** Query $i$ sees key $j$ where $j \le t - s + i$: the last query sees all keys. Hidden keys have no
#   influence, however large or small the scores are.
# - **Split keys.** `out` and `lse` may come from more keys than these, as in ring attention: rows of $P$ then sum to
#   less than 1, and the formulas hold all the same.
# - **Half precision.** `lse` is float32, and stays so. $P$, $D$ and $dS$ are computed in float32, each rounded once
#   before a product at most: $dS$ is not made of a rounded $P$. Scores and $dO\, V^\top$ may be rounded.

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
# `scores.masked_fill(hidden, -torch.inf)` with `hidden = torch.arange(t) > torch.arange(t - s, t)[:, None]`;
# `(scores - lse[..., None]).exp()`; `(grad_out * out).sum(-1, keepdim=True)` in float32; then four products.

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

    lse is float32 at least. The results have the dtype of q. Dao 2023, arXiv:2307.08691, algorithm 2.
    """
    ### BEGIN SOLUTION
    s, t, dtype = q.shape[-2], k.shape[-2], q.dtype
    acc = torch.promote_types(dtype, torch.float32)
    scale = 1 / math.sqrt(q.shape[-1])
    scores = (q @ k.transpose(-2, -1)).to(acc) * scale
    if causal:
        place = torch.arange(t - s, t, device=q.device)[:, None]
        scores = scores.masked_fill(torch.arange(t, device=q.device) > place, -torch.inf)
    weights = (scores - lse[..., None]).exp()
    row_dot = (grad_out.to(acc) * out).sum(dim=-1, keepdim=True)
    grad_weights = grad_out @ v.transpose(-2, -1)
    grad_scores = (weights * (grad_weights - row_dot) * scale).to(dtype)
    grad_q = grad_scores @ k
    grad_k = grad_scores.transpose(-2, -1) @ q
    grad_v = weights.to(dtype).transpose(-2, -1) @ grad_out
    return grad_q, grad_k, grad_v
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# **Products.** For $C = A B$ the gradients are $dA = dC\, B^\top$ and $dB = A^\top dC$. So $O = P V$ gives
# $dP = dO\, V^\top$ and $dV = P^\top dO$. $S = Q K^\top / \sqrt{d_k}$ gives $dQ$ and $dK$, each with the scale once.
#
# **Softmax.** $\partial P_j / \partial S_i = P_j (\delta_{ij} - P_i)$, so $dS_i = P_i (dP_i - \sum_j P_j\, dP_j)$. And
# $\sum_j P_j\, dP_j = \sum_j P_j\, (dO \cdot v_j) = dO \cdot O$: a sum over keys has become a product of two rows that
# are in memory already. So a kernel can go through the keys block by block, in any order.
#
# **Half precision.** What is summed or exponentiated is float32. $P$ and $dS$ are rounded where they enter a product,
# as tensor cores want them.
#
# **What it costs.** Five products where the forward pass has two: 2.5 times the FLOPs. A layer of Llama 3 8B at 8,192
# tokens, 32 heads of 128, takes $10\, s^2 d$ = 2.7 TFLOPs, half of that with a causal kernel: 1.4 ms at 989 TFLOPS.
# Here the matrices of $s \cdot t$ go through HBM, 8.6 GB for one in float32; a kernel holds a block of them in SRAM,
# and of what was kept reads only 4 bytes a query and head for `lse` beside `out`.
#
# ## The other formulation
#
# $D$ as $\sum_j P_j\, dP_j$, as autograd has it for softmax. It is the same where `out` and `lse` belong to these keys,
# and wrong where they come from more. It also needs all keys of a row before the first $dS$.
#
# ## The usual mistakes
#
# - $D$ left out: every score then gets a gradient of the sign of $dP$.
# - $P (1 - P)$, the derivative of a sigmoid: it leaves out that weights compete.
# - The scale left out in $dQ$ and $dK$, or applied to $dS$ and to them.
# - $P$ multiplied by the mask: a hidden score may be so far above `lse` that it has overflowed, and $0 \cdot \infty$ is
#   nan.
# - `lse` rounded to bfloat16: at 10 its steps are 1/16, and all weights of a row are off by up to 3 percent.

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
# ### Why do the rows of dS sum to 0?
#
# - A constant added to all scores of a row changes no weight, so the gradient has no part in that direction.
# - It holds where rows of $P$ sum to 1: $\sum_j P_j\, dP_j - D \sum_j P_j = 0$.
#
# Source: Dao et al. 2022, appendix B.2, arXiv:2205.14135.
#
# ### How many TFLOPs does this backward take in a layer of `heads` heads of 128 at `seq` tokens, not causal?
#
# - Five products of $2 s^2 d$ a head: scores again, $dP$, $dV$, $dQ$ and $dK$. The forward pass has two.
# - A causal kernel skips nearly half of it. The recomputed scores are a fifth, and still cheaper than reading them.
#
# Answer: `10 * heads * seq**2 * 128 / 1e12` TFLOPs, within 5 %. Settings: `heads` 16, 32, 64; `seq` 4096, 8192, 32768.
#
# Source: Dao 2023, section 4.1, arXiv:2307.08691.
#
# ### How many times the bytes of `lse` would the weights take, `seq` tokens a row, kept in `size` bytes each?
#
# - `lse` is one float32 a query and head, the weights are a row of `seq` numbers.
# - 8,192 tokens of 32 heads: 1 MB of `lse`, 4.3 GB of weights in bfloat16, for each layer and sequence.
#
# Answer: `seq * size / 4`, within 1 %. Settings: `seq` 2048, 8192, 131072; `size` 2, 4.
#
# Source: Dao et al. 2022, section 3.1, arXiv:2205.14135.
#
# ### Why is D computed before the loop over blocks?
#
# - It needs `out` and `grad_out` alone, and is then one number a query.
# - As $\sum_j P_j\, dP_j$ it would take a loop over all keys of its own.
#
# Source: Dao et al. 2022, appendix B.4, arXiv:2205.14135.
#
# ### Why may two runs of a kernel differ in grad_q?
#
# - Blocks of keys add to the same rows of $dQ$ by atomic additions, whose order is not fixed.
# - Float addition is not associative. Deterministic kernels fix the order, and take more memory or time.
#
# Source: flash-attention, the argument deterministic, https://github.com/Dao-AILab/flash-attention.
