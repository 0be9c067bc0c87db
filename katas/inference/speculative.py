# %% [markdown]
# # Verifying a draft
#
# $$u_i \, q_i(x_i) < p_i(x_i), \qquad
# \mathrm{residual}_i = \frac{\max(p_i - q_i,\, 0)}{\sum_v \max(p_i(v) - q_i(v),\, 0)}$$
#
# A small model has drafted $k$ tokens, each drawn from its distribution $q_i$. The large model gives its own
# distributions $p_i$ for all of them in one pass. What is kept must be distributed as if the large model had drawn
# every token itself.
#
# **Write** `speculative_verify(draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform)`. It gives
# `(tokens, lengths)`, both int64.
#
# - **Shapes.** `draft_tokens` `(batch, k)`; `draft_probs` $q$ `(batch, k, vocab)`; `target_probs` $p$
#   `(batch, k + 1, vocab)`, one place more than the draft; `accept_uniform` $u$ `(batch, k)`; `sample_uniform`
#   `(batch,)`. Results: `tokens` `(batch, k + 1)`, `lengths` `(batch,)`.
# - **A draft token is accepted** if $u_i \, q_i(x_i) < p_i(x_i)$ and all before it in its row were. So $p = 0$ is never
#   accepted, be $q$ 0 as well, and $p = q$ always is.
# - **One more token** stands behind the accepted ones. If a token was rejected, it is drawn from the residual of that
#   place. If all were accepted, it is drawn from the last distribution of the target, $p_{k+1}$.
# - **It is drawn** by `sample_uniform` as in **sampling**: the smallest id whose cumulative probability exceeds the
#   number. An id of probability 0 is never drawn. Where rounding leaves the whole sum below the number, it is the last
#   id of positive probability.
# - **A residual that sums to 0**, as rounded probabilities may leave it, is replaced by $p$ of that place.
# - **`lengths`** counts the accepted tokens and the one behind them, 1 to `k + 1`. Places behind hold -1.
# - **Probabilities** are float32 or float64. Inputs are not modified, and may be non-contiguous or expanded. No
#   gradients are asked for. No loops over rows, places or tokens.
# - **A `ValueError`** whose message holds the values: `target_probs` without its `k + 1` places; vocabularies or
#   batches that differ; a draft token outside of the vocabulary; a uniform number outside of $[0, 1)$.
# - **Not graded:** half precision, `k` of 0, choices that hang on less than 1e-3 of probability.
#
# Not allowed: `torch.multinomial` and `torch.distributions`.
#
# **Example.** One row, $k = 1$, draft token 0, $q = (0.6, 0.3, 0.1)$, $p_1 = (0.3, 0.3, 0.4)$. With $u = 0.4$ it is
# accepted, since $0.4 \cdot 0.6 = 0.24 < 0.3$, and one more token comes from $p_2$: length 2. With $u = 0.7$ it is
# rejected: $0.42 \ge 0.3$. The residual is $(0, 0, 0.3)$, normalised $(0, 0, 1)$: the tokens are $(2, -1)$, length 1.
#
# **Builds on** sampling. **Sources:** Leviathan et al. 2022: Fast Inference from Transformers via Speculative Decoding,
# [arXiv:2211.17192](https://arxiv.org/abs/2211.17192); Chen et al. 2023: Accelerating Large Language Model Decoding
# with Speculative Sampling, [arXiv:2302.01318](https://arxiv.org/abs/2302.01318).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# import torch
#
# q, p = torch.tensor([0.6, 0.3, 0.1]), torch.tensor([0.3, 0.3, 0.4])
# for u in (0.4, 0.7):
#     print(f"u = {u}: token 0 is {'accepted' if u * q[0] < p[0] else 'rejected'}")
# residual = (p - q).clamp_min(0)
# print("residual:", (residual / residual.sum()).tolist())

# %%
import torch
from jaxtyping import Float, Int
from torch import Tensor


# %%
def speculative_verify(
    draft_tokens: Int[Tensor, "batch k"],
    draft_probs: Float[Tensor, "batch k vocab"],
    target_probs: Float[Tensor, "batch places vocab"],
    accept_uniform: Float[Tensor, "batch k"],
    sample_uniform: Float[Tensor, "batch"],
) -> tuple[Int[Tensor, "batch places"], Int[Tensor, "batch"]]:
    """The accepted tokens and one more, -1 behind them; and how many they are. `places` is `k` and one more.

    Raises:
        ValueError: shapes do not fit, a draft token is outside of the vocabulary, or a uniform number of [0, 1).
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("speculative")
