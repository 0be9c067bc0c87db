# %% [markdown]
# # Causal attention in NumPy
#
# $$\mathrm{head}_h = \mathrm{softmax}\!\left(\frac{Q_h K_h^\top}{\sqrt{d}} + M\right) V_h, \qquad
# M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}$$
#
# Multi-head attention without a framework.
#
# **Write** in NumPy alone
#
# - `softmax(x, axis=-1)`: stable, of the shape of `x`;
# - `causal_attention(x, w_q, w_k, w_v, w_o, num_heads)`, from `(batch, seq, d_model)` to the same shape.
#
# The weights are `(d_model, d_model)` and stand on the right: `q = x @ w_q`. Head $h$ takes the columns
# $h d \ldots (h + 1) d - 1$, with $d$ = `d_model / num_heads`. Token $i$ attends to tokens $0 \ldots i$. The heads,
# joined in order, are multiplied by `w_o`. No biases, no dropout.
#
# **Example.** `softmax([1000, 1000])` is `[0.5, 0.5]`. With one head, identities for weights and
# `x = [[[1, 0], [0, 1]]]` token 0 gives `[1, 0]`. Token 1 has the scores 0 and 0.7071, so the weights 0.3302 and
# 0.6698, and gives `[0.3302, 0.6698]`.
#
# **Builds on** softmax, causal_attention. **Sources:** Vaswani et al. 2017: Attention is all you need,
# [arXiv:1706.03762](https://arxiv.org/abs/1706.03762).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Large logits, Minus infinity, Dtype, Errors</summary>
#
# - **Large logits.** Entries of ±1000 give neither nan nor a warning of overflow, nor do rows far from each other.
# - **Minus infinity.** An entry of `-inf` gets exactly 0 in `softmax`. A row of nothing else is not asked for.
# - **Dtype.** float32 in, float32 out; float64 in, float64 out. Half precision is not asked for.
# - **Errors.** `d_model` no multiple of `num_heads`: a `ValueError` with both.
#
# </details>

# %%
import math

import numpy as np
from jaxtyping import Float


# %%
def softmax(x: Float[np.ndarray, "*batch"], axis: int = -1) -> Float[np.ndarray, "*batch"]:
    """Weights along `axis` that are proportional to exp(x) and sum to 1."""
    raise NotImplementedError


# %%
def causal_attention(
    x: Float[np.ndarray, "batch seq d_model"],
    w_q: Float[np.ndarray, "d_model d_model"],
    w_k: Float[np.ndarray, "d_model d_model"],
    w_v: Float[np.ndarray, "d_model d_model"],
    w_o: Float[np.ndarray, "d_model d_model"],
    num_heads: int,
) -> Float[np.ndarray, "batch seq d_model"]:
    """What each token gets from those up to itself. Raises ValueError where `num_heads` does not divide `d_model`."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("numpy_attention")
