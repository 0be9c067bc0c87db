# %% [markdown]
# # Reward model
#
# $$\ell = -\ln \sigma(r_c - r_r - m)$$
#
# A reward model is a language model with a value head. It reads two responses to one prompt, and is trained to give the
# chosen one the higher reward.
#
# **Write** two functions.
#
# - `last_token_values(values, mask)`: the head's outputs `(batch, seq)` and a mask `(batch, seq)`, True on real tokens,
#   to `(batch,)`: each row's value at its last real token. Rows may be padded on the left or on the right.
# - `reward_loss(chosen, rejected, margin=None)`: rewards $r_c$ and $r_r$ `(batch,)` to the mean of $\ell$, a scalar,
#   the Bradley-Terry loss. `margin` `(batch,)` is how much better the chosen one was rated, as in Llama 2.
#
# All of PyTorch is allowed.
#
# **Example.** Values `[[1, 2, 9], [9, 3, 4]]` with masks `[[T, T, F], [F, T, T]]` give `[2, 4]`. One pair of rewards 1
# and 0 has the loss $\ln(1 + e^{-1}) = 0.31326$; with a margin of 1 it is $\ln 2 = 0.69315$.
#
# **Builds on** dpo. **Sources:** Ouyang et al. 2022: Training language models to follow instructions (InstructGPT),
# [arXiv:2203.02155](https://arxiv.org/abs/2203.02155); Touvron et al. 2023: Llama 2, section 3.2 (the margin),
# [arXiv:2307.09288](https://arxiv.org/abs/2307.09288).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Last token, Padding, Large gaps, Errors</summary>
#
# - **Last token.** It is the last True of a row, also where the mask has holes, as when turns are left out. Every row
#   has one.
# - **Padding.** Values there may be nan or infinite, and reach neither results nor gradients.
# - **Large gaps.** Rewards that are ±2,000 apart give finite losses and gradients.
# - **Errors.** A `mask` of another shape than `values`: it would broadcast.
#
# </details>

# %%
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


# %%
def last_token_values(values: Float[Tensor, "batch seq"], mask: Bool[Tensor, "batch seq"]) -> Float[Tensor, "batch"]:
    """The value of each row at the last place where the mask is True. Raises ValueError if the shapes differ."""
    raise NotImplementedError


# %%
def reward_loss(
    chosen: Float[Tensor, "batch"], rejected: Float[Tensor, "batch"], margin: Float[Tensor, "batch"] | None = None
) -> Float[Tensor, ""]:
    """The mean of -log σ(chosen - rejected - margin): how unlikely the choices are under Bradley and Terry's model."""
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("reward_model")
