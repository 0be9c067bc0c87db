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
#     title: PPO's losses
#     level: 3
#     minutes: 20
#     builds_on: [kl_estimators]
#     sources:
#       - "Schulman et al. 2017: Proximal Policy Optimization Algorithms, arXiv:1707.06347"
# ---

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

# %% tags=["active-ipynb", "example"]
# # The example, in numbers
# for ratio in (1.5, 0.5):
#     for advantage in (1, -1):
#         clamped = min(max(ratio, 0.8), 1.2)
#         bare, clipped = -ratio * advantage, -clamped * advantage
#         told = "with a gradient" if bare >= clipped else "without a gradient"
#         print(f"ratio {ratio}, A {advantage}: {bare:+.1f}, clipped {clipped:+.1f}: {max(bare, clipped):+.1f} {told}")

# %% [markdown] tags=["hint"]
# The smaller gain is the larger loss. On which side does the clip bind for $A > 0$, on which for $A < 0$?

# %% [markdown] tags=["hint"]
# `0 * nan` is nan, on the way back too. Where must the mask stand so that the exponential never sees garbage?

# %% [markdown] tags=["hint"]
# `torch.where(mask, logp - old, 0.0).exp()` is the ratio, `torch.minimum(ratio * A, ratio.clamp(1 - clip, 1 + clip) *
# A)` the gain; `torch.where(mask, loss, 0.0).sum()` is divided by the count, or by 1. In float32, constants detached.

# %%
import torch
from jaxtyping import Bool, Float
from torch import Tensor


# %%
### BEGIN SOLUTION
def _checked(clip: float, mask: Tensor, **given: Tensor) -> list[Tensor]:
    """The inputs in float32 at least, the first with its graph, the others as constants."""
    if not clip > 0:
        raise ValueError(f"clip={clip} is not above 0")
    first, *others = given.values()
    for name, each in (*given.items(), ("mask", mask)):
        if each.shape != first.shape:
            raise ValueError(f"{name} has shape {tuple(each.shape)}, expected {tuple(first.shape)}")
    wide = torch.promote_types(first.dtype, torch.float32)
    return [first.to(wide), *(each.detach().to(wide) for each in others)]


def _masked_mean(losses: Tensor, mask: Tensor) -> Tensor:
    """The mean of what is kept, 0 where nothing is."""
    return torch.where(mask, losses, 0.0).sum() / mask.sum().clamp_min(1)


### END SOLUTION


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
    ### BEGIN SOLUTION
    new, old, gain = _checked(clip, mask, logp=logp, old_logp=old_logp, advantages=advantages)
    ratio = torch.where(mask, new - old, 0.0).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    losses = -torch.minimum(ratio * gain, clipped * gain)
    return _masked_mean(losses, mask).to(logp.dtype)
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    value, before, target = _checked(clip, mask, values=values, old_values=old_values, returns=returns)
    value, before, target = (torch.where(mask, each, 0.0) for each in (value, before, target))
    near = before + (value - before).clamp(-clip, clip)
    errors = torch.maximum((value - target).square(), (near - target).square())
    return _masked_mean(0.5 * errors, mask).to(values.dtype)
    ### END SOLUTION


# %% [markdown] tags=["solution"]
# ## Why it is done this way
#
# $\rho A$ estimates how much better the new policy would do on tokens that the old one drew. Its gradient at $\rho = 1$
# is the policy gradient; far from 1 the estimate is worthless. Clamping the ratio takes the reward for going further
# away. The minimum keeps the other half: where the policy has moved the *wrong* way, the clamped term is the better
# one, and the minimum takes the bare one, so that it can come back. Clipped alone it would be stuck there.
#
# The value's maximum is the same idea: the worse of two errors, so that one step changes a value by at most $c$ for
# free.
#
# The mask stands before the exponential. Padding may hold anything; `where` afterwards would mend the value, but the
# gradient of the unused branch is $0 \cdot \infty$, which is nan.
#
# Dividing by the count of kept tokens gives every token the same weight. A mean of row means gives tokens of short
# answers more.
#
# **What it costs.** $O(\text{tokens})$ time, ten elementwise operations, with 4 bytes a token for each of a few copies:
# nothing beside the logits that `logp` was picked from.
#
# ## The other formulation
#
# By cases: $\ell = -A \min(\rho, 1 + c)$ where $A \ge 0$, and $-A \max(\rho, 1 - c)$ where $A < 0$. One clip binds for
# each sign, which is easier to reason about, and half as much is computed.
#
# ## The usual mistakes
#
# - `max` of the gains: the clip then stops the way back and allows the way out.
# - Clipping alone, without the bare ratio.
# - The mask after the exponential, or by multiplication: padding makes gradients nan.
# - A mean over all places: the loss then depends on how much padding there is.
# - A ratio of two exponentials: both underflow for unlikely tokens.
# - The value clamped around 1 like the ratio, instead of around its old value.

# %% tags=["active-ipynb", "solution"]
# # Where the clip binds: the loss of one token by its ratio, and where its gradient is gone
# import torch
# from matplotlib import pyplot as plt
#
# ratio, one = torch.linspace(0.4, 1.8, 141), torch.ones(1, 1)
# for advantage in (1.0, -1.0):
#     losses = [ppo_loss(r.log() * one, 0 * one, advantage * one, one > 0) for r in ratio]
#     plt.plot(ratio, torch.stack(losses), label=f"A = {advantage:+.0f}")
#     plt.plot(ratio, -advantage * ratio, "--", color="grey", linewidth=0.8)
# plt.axvspan(0.8, 1.2, alpha=0.1, label="within the clip")
# plt.xlabel("ratio of new to old probability")
# plt.ylabel("loss")
# plt.title("Flat where it went far enough, steep where it went wrong")
# plt.legend()
# plt.show()

# %% [markdown] tags=["solution", "questions"]
# ## What interviewers ask next
#
# ### Why the minimum, if the ratio is clipped already?
#
# - Clipped alone, a token that moved the wrong way beyond the clip has no gradient and never comes back.
# - With the minimum the loss is a pessimistic bound: it ignores the clip whenever that would look too good.
#
# Source: Schulman et al. 2017, section 3, arXiv:1707.06347.
#
# ### What is the loss in the first step after the rollout?
#
# - $\rho = 1$ everywhere: the loss is minus the mean advantage, and the gradient the plain policy gradient.
# - Nothing is clipped. If some is, old and new log-probabilities do not come from the same numerics or temperature.
#
# Source: Huang et al. 2022, The 37 Implementation Details of Proximal Policy Optimization, https://iclr-blog-track.github.io/2022/03/25/ppo-implementation-details/.
#
# ### Does the clip keep the policy near the old one?
#
# - Not by itself. A clipped token has no gradient of its own, but shared weights move it on with the others.
# - That is why one watches the KL and the share of clipped tokens, and stops the epochs early.
#
# Source: Engstrom et al. 2020, Implementation Matters in Deep Policy Gradients, arXiv:2005.12729.
#
# ### Where do old log-probabilities come from?
#
# - From the policy that drew the tokens, computed once before the first update and kept.
# - An inference engine's own differ by its kernels and precision: ratios start off 1. Many recompute them in the
#   trainer.
#
# Source: Yao et al. 2025, Your Efficient RL Framework Secretly Brings You Off-Policy RL Training, https://fengyao.notion.site/off-policy-rl.
#
# ### Does clipping the value help?
#
# - The evidence is weak: large studies find it of no use, or harmful.
# - It depends on the scale of rewards, unlike the ratio's clip: 0.2 means something else for returns of 100.
#
# Source: Andrychowicz et al. 2020, What Matters In On-Policy Reinforcement Learning, arXiv:2006.05990.
#
# ### Where does the KL to a reference model go?
#
# - Into the rewards, token by token, before advantages are made: then it is credited like any reward.
# - Or into the loss as a penalty of its own, as GRPO does.
#
# Source: Ouyang et al. 2022, arXiv:2203.02155; Shao et al. 2024, arXiv:2402.03300.
#
# ### How large may a ratio get?
#
# - For $A < 0$ the loss $\rho |A|$ has no bound: one token whose probability rose a lot can dominate a step.
# - Dual-clip PPO bounds it as well, by a constant such as $3 |A|$.
#
# Source: Ye et al. 2019, arXiv:1912.09729.
