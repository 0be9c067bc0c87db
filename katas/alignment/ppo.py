# %% [markdown]
# # PPO's losses
#
# $$\ell^{\pi}_t = -\min\big(\rho_t A_t,\ \mathrm{clamp}(\rho_t,\, 1 - c,\, 1 + c)\, A_t\big), \qquad
# \rho_t = e^{\log \pi(a_t) - \log \pi_{old}(a_t)}$$
#
# $$\ell^{V}_t = \tfrac{1}{2} \max\big((V_t - R_t)^2,\
# (\mathrm{clamp}(V_t,\, V^{old}_t - c,\, V^{old}_t + c) - R_t)^2\big)$$
#
# An old policy drew the tokens; the policy has moved since, by the ratio $\rho$. A good token ($A > 0$) shall become
# more likely, a bad one less, but nothing is gained by moving further than $c$.
#
# **Write** `ppo_loss(logp, old_logp, advantages, mask, clip=0.2)` and `value_loss(values, old_values, returns, mask,
# clip=0.2)`. Everything has shape `(batch, seq)`; `mask` is boolean, True for the tokens that count. Each result is a
# scalar: one mean of $\ell$ over all kept tokens of the batch, whatever rows they stand in.
#
# **Example.** `clip` 0.2. A ratio of 1.5 with $A = 1$ loses `-1.2`, without a gradient: it has moved far enough. With
# $A = -1$ it loses `1.5`, with a gradient of `1.5` for `logp`: it went the wrong way and is called back. A ratio of
# 0.5 loses `-0.5` (gradient `-0.5`) with $A = 1$ and `0.8` (none) with $A = -1$.
#
# **Builds on** kl_estimators. **Sources:** Schulman et al. 2017: Proximal Policy Optimization Algorithms,
# [arXiv:1707.06347](https://arxiv.org/abs/1707.06347).
#
# House rules hold: docs/house_rules.md.

# %% [markdown] tags=["contract"]
# <details><summary>Contract: Padding, Bounds, Constants</summary>
#
# - **Padding.** What the mask leaves out may be anything, nan and infinity too, in every floating input. It reaches
#   neither a loss nor a gradient. Nothing kept at all gives 0.
# - **Bounds.** The clips and no others: no dual clip and no clamp of log-ratios, as verl has them. Log-probabilities
#   of -200 and log-ratios of ±19 count in full.
# - **Constants.** Only `logp` and `values` get a gradient.
#
# </details>

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# for ratio in (1.5, 0.5):
#     for advantage in (1, -1):
#         clamped = min(max(ratio, 0.8), 1.2)
#         bare, clipped = -ratio * advantage, -clamped * advantage
#         slope = "with a gradient" if bare >= clipped else "without a gradient"
#         print(f"ratio {ratio}, A {advantage}: {bare:+.1f}, clipped {clipped:+.1f}: {max(bare, clipped):+.1f} {slope}")

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

    Only `logp` gets a gradient. Schulman et al. 2017, arXiv:1707.06347.
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

    Only `values` gets a gradient.
    """
    raise NotImplementedError


# %% tags=["active-ipynb"]
# import sys
#
# sys.path.append("../..")  # the project
# from dojo import check
#
# check("ppo")
