# %% [markdown]
# # PPO's losses
#
# $$\ell^{\pi}_t = -\min\big(\rho_t A_t,\ \mathrm{clamp}(\rho_t,\, 1 - c,\, 1 + c)\, A_t\big), \qquad
# \rho_t = e^{\log \pi(a_t) - \log \pi_{old}(a_t)}$$
#
# $$\ell^{V}_t = \tfrac{1}{2} \max\big((V_t - R_t)^2,\
# (\mathrm{clamp}(V_t,\, V^{old}_t - c,\, V^{old}_t + c) - R_t)^2\big)$$
#
# The tokens were drawn by an old policy; the policy has moved since by the ratio $\rho$. A good token
# ($A > 0$) shall become more likely, a bad one less, but nothing is gained by moving further than $c$.
#
# **Write** `ppo_loss(logp, old_logp, advantages, mask, clip=0.2)` and `value_loss(values, old_values, returns, mask,
# clip=0.2)`. Everything has shape `(batch, seq)`; `mask` is boolean, True for the tokens that count. Each result is the
# mean of $\ell$ over the kept tokens: a tensor of no dimensions, with the dtype of `logp` or `values`.
#
# - **One mean** runs over all kept tokens of the batch together, whatever rows they stand in.
# - **Constants:** `old_logp`, `advantages`, `old_values` and `returns` get no gradient, or one of zeros.
# - **What the mask leaves out** may be anything in the floating inputs, nan and infinity too. It reaches neither
#   results nor gradients, whose entries there are 0.
# - **Nothing kept** gives 0, with gradients of 0.
# - **Unlikely tokens**, with log-probabilities as low as -200, count like any other. So do ratios far from 1:
#   log-ratios of kept tokens lie within ±20.
# - **float16 and bfloat16** are computed in float32 and rounded once, at the end: no square overflows. float64 in,
#   float64 out; float32 accuracy is enough.
# - **Inputs are not modified**, and may be non-contiguous or expanded. No loops over tokens.
# - **A `ValueError`** whose message holds the values: an input of another shape than the first one; `clip` not above 0.
# - **Not graded:** a ratio or a value exactly at a clip; a clip of 1 or more; integer masks.
#
# Not allowed: leaving PyTorch for the computation.
#
# **Example.** `clip` 0.2. A ratio of 1.5 with $A = 1$ loses `-1.2`, without a gradient: it has moved far enough. With
# $A = -1$ it loses `1.5`, with a gradient of `1.5` for `logp`: it went the wrong way and is called back. A ratio of
# 0.5 loses `-0.5` (gradient `-0.5`) with $A = 1$ and `0.8` (none) with $A = -1$.
#
# **Builds on** kl_estimators. **Sources:** Schulman et al. 2017: Proximal Policy Optimization Algorithms,
# [arXiv:1707.06347](https://arxiv.org/abs/1707.06347).
#
# House rules hold: docs/house_rules.md.

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# for ratio in (1.5, 0.5):
#     for advantage in (1, -1):
#         clamped = min(max(ratio, 0.8), 1.2)
#         bare, clipped = -ratio * advantage, -clamped * advantage
#         told = "with a gradient" if bare >= clipped else "without a gradient"
#         print(f"ratio {ratio}, A {advantage}: {bare:+.1f}, clipped {clipped:+.1f}: {max(bare, clipped):+.1f} {told}")

# %%
import torch
from jaxtyping import Bool, Float
from torch import Tensor


# %%
def ppo_loss(
    logp: Float[Tensor, "batch seq"],
    old_logp: Float[Tensor, "batch seq"],
    advantages: Float[Tensor, "batch seq"],
    mask: Bool[Tensor, "batch seq"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    """The mean over kept tokens of -min(ρA, clamp(ρ, 1 - clip, 1 + clip)A), where ρ = exp(logp - old_logp).

    Only `logp` gets a gradient. Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: shapes differ, or clip is not above 0.
    """
    raise NotImplementedError


# %%
def value_loss(
    values: Float[Tensor, "batch seq"],
    old_values: Float[Tensor, "batch seq"],
    returns: Float[Tensor, "batch seq"],
    mask: Bool[Tensor, "batch seq"],
    clip: float = 0.2,
) -> Float[Tensor, ""]:
    """Half the mean over kept tokens of max((V - R)², (clamp(V, V_old - clip, V_old + clip) - R)²).

    Only `values` gets a gradient. Half precision is computed in float32 and rounded once.

    Raises:
        ValueError: shapes differ, or clip is not above 0.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("ppo")
