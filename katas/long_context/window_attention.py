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
#
# **Builds on** causal_mask, sdpa. **Sources:** Xiao et al. 2023: Efficient Streaming Language Models with Attention
# Sinks, [arXiv:2309.17453](https://arxiv.org/abs/2309.17453); OpenAI 2025: gpt-oss-120b and gpt-oss-20b Model Card,
# [arXiv:2508.10925](https://arxiv.org/abs/2508.10925).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Positions, Device, Masks, Masked rows, Sinks, Half precision, Errors</summary>
#
# - **Positions.** The queries are the last of the keys. A window counts the token itself, and may be wider than all
#   keys.
# - **Device.** The mask is made on `device`.
# - **Masks.** They may differ from head to head. A masked key has no influence, however large or small the scores are.
# - **Masked rows.** A query that may attend to nothing gets exact zeros, with a sink of `-inf` too, and all gradients
#   stay finite.
# - **Sinks.** One of `-inf` makes plain attention, one of 200 no nan. They may be float32 where the rest is not.
# - **Half precision.** Softmax in float32. Scores and weights may be rounded to the dtype of the inputs, as Llama does.
# - **Errors.** A `window` below 1; `sink_logits` that are not one for each head.
#
# </details>

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
    raise NotImplementedError


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
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("window_attention")
