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
#
# **Builds on** causal_mask, sdpa. **Sources:** Xiao et al. 2023: Efficient Streaming Language Models with Attention
# Sinks, [arXiv:2309.17453](https://arxiv.org/abs/2309.17453); OpenAI 2025: gpt-oss-120b and gpt-oss-20b Model Card,
# [arXiv:2508.10925](https://arxiv.org/abs/2508.10925).
#
# House rules hold: docs/house_rules.md.

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
    raise NotImplementedError


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
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("window_attention")
