# %% [markdown]
# # Verifying a draft
#
# $$u_i \, q_i(x_i) < p_i(x_i), \qquad
# \mathrm{residual}_i = \frac{\max(p_i - q_i,\, 0)}{\sum_v \max(p_i(v) - q_i(v),\, 0)}$$
#
# A small model has drafted $k$ tokens $x_i$, each drawn from its distribution $q_i$. The large model gives its own
# $p_i$ for all of them, and one more, in one pass. What is kept must be distributed as if the large model had
# drawn every token itself.
#
# **Write** `speculative_verify(draft_tokens, draft_probs, target_probs, accept_uniform, sample_uniform)`: shapes
# `(batch, k)`, $q$ `(batch, k, vocab)`, $p$ `(batch, k + 1, vocab)`, $u$ `(batch, k)` and `(batch,)`, in float32. Draft
# tokens are accepted up to the first for which the inequality fails. After them one is drawn: from the residual of that
# place, or from $p_{k+1}$ if all were accepted. Return `(tokens, lengths)`, int64: `(batch, k + 1)` with -1 after the
# drawn token, and how many are not -1, `(batch,)`.
#
# Not allowed: `torch.multinomial` and `torch.distributions`.
#
# **Example.** One row, $k = 1$, draft token 0, $q = (0.6, 0.3, 0.1)$, $p_1 = (0.3, 0.3, 0.4)$. With $u = 0.4$ it is
# accepted, since $0.4 \cdot 0.6 = 0.24 < 0.3$, and one more token comes from $p_2$: length 2. With $u = 0.7$ it is
# rejected: $0.42 \ge 0.3$. The residual is $(0, 0, 0.3)$, normalized $(0, 0, 1)$: the tokens are $(2, -1)$, length 1.
#
# **Builds on** sampling. **Sources:** Leviathan et al. 2022: Fast Inference from Transformers via Speculative Decoding,
# [arXiv:2211.17192](https://arxiv.org/abs/2211.17192); Chen et al. 2023: Accelerating Large Language Model Decoding
# with Speculative Sampling, [arXiv:2302.01318](https://arxiv.org/abs/2302.01318).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Rare tokens, Drawn id, Zero residual, Errors</summary>
#
# - **Rare tokens.** Where $p = q$ the draft's token is accepted for every $u$ of $[0, 1)$, however rare it is.
# - **Drawn id.** As in **sampling**: the smallest id whose cumulative probability exceeds `sample_uniform`. One of
#   probability 0 is never drawn, nor accepted: not at a number of 0, nor at one so near 1 that rounded sums stay below.
# - **Zero residual.** A residual that sums to 0, as rounded probabilities may leave it, is replaced by $p$ of that
#   place.
# - **Errors.** `target_probs` without its `k + 1` places, or with another vocabulary than `draft_probs`.
#
# </details>

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
import torch.nn.functional as F
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
    """The accepted tokens and one more, -1 after them; and how many they are. `places` is `k` and one more.

    Raises ValueError if target_probs has another number of places, or another vocabulary than draft_probs.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("speculative")
